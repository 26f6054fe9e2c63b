-- The database of a simulation does not use the system clock: each transaction sets the time. The search path finds these
-- functions before the built-in ones, so every default, view and statement of the product uses them.
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN current_setting('simulation.now')::timestamptz;

CREATE FUNCTION public.now() RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN current_setting('simulation.now')::timestamptz;
