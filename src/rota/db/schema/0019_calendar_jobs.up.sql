-- The synchronisations of one pair of calendars, live and finished. Jobs of other tasks pay for neither.
CREATE INDEX job_calendar_pair ON rota.job ((payload ->> 'calendar_pair_id'), id) WHERE task = 'sync_pair';
CREATE INDEX run_calendar_pair ON rota.run ((payload ->> 'calendar_pair_id'), job_id) WHERE final AND task = 'sync_pair';
