-- The number of the last event that was sent to a socket; and the index that finds the events of one user.
ALTER TABLE websocket_connection RENAME COLUMN told TO last_sent;
ALTER TABLE websocket_connection RENAME CONSTRAINT websocket_connection_told_check TO websocket_connection_last_sent_check;
ALTER INDEX outbox_news RENAME TO outbox_events_of_user;
