-- name: clock_install
-- The shift lies in a table, so that moving the clock changes no function and throws away nobody's plans. The key is there for
-- sessions that do not scan tables.
CREATE TABLE IF NOT EXISTS rota.clock (
    single    boolean     PRIMARY KEY DEFAULT true CHECK (single),
    frozen_at timestamptz,
    shift     interval    NOT NULL DEFAULT interval '0'
);
INSERT INTO rota.clock DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE OR REPLACE FUNCTION rota.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT coalesce(frozen_at, now()) + shift FROM rota.clock WHERE single';

-- name: clock_read
SELECT rota.now()

-- name: clock_move
UPDATE rota.clock SET shift = shift + %(microseconds)s * interval '1 microsecond'

-- name: clock_freeze
UPDATE rota.clock SET frozen_at = coalesce(%(at)s, rota.now()), shift = interval '0'

-- name: clock_reset
UPDATE rota.clock SET frozen_at = NULL, shift = interval '0'
