-- The database of a simulation has no clock of its own: whoever begins a transaction says what time it is. Found before
-- the built-in functions because of the search path, so that every default, view and statement of the product uses it.
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN current_setting('simulation.now')::timestamptz;

CREATE FUNCTION public.now() RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN current_setting('simulation.now')::timestamptz;
