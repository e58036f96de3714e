-- Tables, an index, a transaction that is rolled back, triggers, and a recursive query; leaves a database file.
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL CHECK (price >= 0));
CREATE INDEX item_by_name ON item (name);
CREATE TABLE log (what TEXT);
CREATE TRIGGER item_added AFTER INSERT ON item BEGIN INSERT INTO log VALUES ('added ' || NEW.name); END;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO item SELECT i, printf('item-%04d', i * 7919 % 500), i * 1.25 FROM n;
COMMIT;
BEGIN;
DELETE FROM item;
SELECT count(*) FROM item;
ROLLBACK;
SELECT count(*), sum(price), min(name), max(name) FROM item;
SELECT name, price FROM item WHERE name LIKE 'item-00%' ORDER BY name DESC LIMIT 5;
SELECT count(*) FROM log;
UPDATE item SET price = price * 2 WHERE id % 10 = 0;
SELECT id, price FROM item WHERE id IN (10, 11, 20);
VACUUM;
PRAGMA integrity_check;
