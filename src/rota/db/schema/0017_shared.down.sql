DROP FUNCTION rota.oldest_ready(text);
