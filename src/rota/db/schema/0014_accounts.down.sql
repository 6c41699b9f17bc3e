DROP FUNCTION rota.claim_link(bytea), rota.request_link(text, text, bytea, interval, integer, boolean),
    rota.take_allowance(text, integer);
DROP TABLE rota.audit, rota.allowance, rota.api_token, rota.session, rota.sign_in_source, rota.magic_link, rota.account;
