-- A user's news are kept in any case, and sent on only while somebody listens.
-- Who speaks of a user holds this lock until the commit, and then looks who listens. Who begins to listen waits for them:
-- either the speaker sees the listener, or the listener has come after what was said.
CREATE FUNCTION wait_for_speakers() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1, hashtext('user:' || NEW.user_id));
    RETURN NEW;
END
$$;
CREATE TRIGGER wait_for_speakers BEFORE INSERT ON websocket_connection FOR EACH ROW EXECUTE FUNCTION wait_for_speakers();
