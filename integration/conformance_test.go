package integration

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

// statement is one text of the conformance suite, run by every road under a
// lease with fence 6, while row 1 has fence 5 and row 2 has fence 7.
type statement struct {
	name string
	// text by dialect; "" is for all that have none of their own. A dialect
	// whose text is "-" has no such statement.
	text map[string]string
	args []any
	// rows is how many it changes, or gives back with RETURNING; rowsOn is for
	// a dialect that counts in its own way.
	rows   int64
	rowsOn map[string]int64
	// err is the sentinel it must give; then nothing changes.
	err error
	// table and after are what a live statement must leave; "" means j.
	table, after string
	// stored is the fence that an ErrFenced tells, and fenced its table; "" means j.
	stored uint64
	fenced string
}

func all(text string) map[string]string { return map[string]string{"": text} }

func (s *statement) on(dialect string) (string, bool) {
	text, ok := s.text[dialect]
	if !ok {
		text = s.text[""]
	}
	return text, text != "" && text != "-"
}

var statements = []statement{
	// UPDATE, pinned by key.
	{name: "update one", text: all("UPDATE j SET v = ? WHERE id = ?"), args: []any{"x", 1}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update one, other way round", text: all("UPDATE j SET v = ? WHERE ? = id"), args: []any{"x", 1}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update one stale", text: all("UPDATE j SET v = ? WHERE id = ?"), args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update one literal stale", text: all("UPDATE j SET v = 'x' WHERE id = 2"), err: fencedsql.ErrFenced, stored: 7},
	{name: "update one gone", text: all("UPDATE j SET v = ? WHERE id = ?"), args: []any{"x", 99}, after: jStart},
	{name: "update one, other condition fails", text: all("UPDATE j SET v = ? WHERE id = ? AND n > 100"), args: []any{"x", 1}, after: jStart},
	{name: "update one, other condition holds", text: all("UPDATE j SET v = ? WHERE n < ? AND (id = ?) AND v LIKE 'a%'"), args: []any{"x", 100, 1}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update with or", text: all("UPDATE j SET v = ? WHERE id = ? OR 1 = 1"), args: []any{"x", 1}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update key itself", text: all("UPDATE j SET id = ? WHERE id = ?"), args: []any{3, 1}, rows: 1, after: "2|b|20|f7, 3|a|10|f6"},
	{name: "update by composite key", text: all("UPDATE pair SET v = ? WHERE a = ? AND b = ?"), args: []any{"x", 1, 1}, rows: 1, table: "pair", after: "1|1|x|f6, 1|2|b|f7"},
	{name: "update by composite key stale", text: all("UPDATE pair SET v = ? WHERE b = ? AND a = ?"), args: []any{"x", 2, 1}, err: fencedsql.ErrFenced, fenced: "pair", stored: 7},
	{name: "update by half a key", text: all("UPDATE pair SET v = ? WHERE a = ?"), args: []any{"x", 1}, err: fencedsql.ErrFenced, fenced: "pair", stored: 7},
	{name: "update without registered key", text: all("UPDATE nokey SET v = ? WHERE id = ?"), args: []any{"x", 1}, rows: 1, table: "nokey", after: "1|x|f6, 2|b|f7"},
	{name: "update without registered key stale", text: all("UPDATE nokey SET v = ? WHERE id = ?"), args: []any{"x", 2}, err: fencedsql.ErrFenced, fenced: "nokey", stored: 7},
	{name: "update int64", text: all("UPDATE counted SET v = ? WHERE id = ?"), args: []any{"x", 1}, rows: 1, table: "counted", after: "1|x|6, 2|b|7"},
	{name: "update int64 stale", text: all("UPDATE counted SET v = ? WHERE id = ?"), args: []any{"x", 2}, err: fencedsql.ErrFenced, fenced: "counted", stored: 7},
	{name: "update int64 many", text: all("UPDATE counted SET v = ? WHERE id < ?"), args: []any{"x", 2}, rows: 1, table: "counted", after: "1|x|6, 2|b|7"},
	{name: "update int64 many stale", text: all("UPDATE counted SET v = ?"), args: []any{"x"}, err: fencedsql.ErrFenced, fenced: "counted", stored: 7},
	{name: "update once", text: all("UPDATE onlyonce SET v = ? WHERE id = ?"), args: []any{"x", 1}, rows: 1, table: "onlyonce", after: "1|x|f6, 2|b|f7"},

	// UPDATE of many.
	{name: "update many live", text: all("UPDATE j SET v = ? WHERE n < ?"), args: []any{"x", 15}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update many one stale", text: all("UPDATE j SET v = ? WHERE id IN (1, 2)"), args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update all", text: all("UPDATE j SET v = 'x'"), err: fencedsql.ErrFenced, stored: 7},
	{name: "update none", text: all("UPDATE j SET v = ? WHERE n > 1000"), args: []any{"x"}, after: jStart},
	{name: "update with alias", text: all("UPDATE j AS t SET v = ? WHERE t.n = 10"), args: []any{"x"}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update pinned with alias stale", text: all("UPDATE j AS t SET v = ? WHERE t.id = ?"), args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update between", text: all("UPDATE j SET v = ? WHERE id BETWEEN ? AND ?"), args: []any{"x", 1, 1}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update with subqueries", text: all("UPDATE j SET v = (SELECT v FROM src WHERE src.id = j.id), n = n + ? WHERE id IN (SELECT id FROM src WHERE n < ?)"), args: []any{5, 2}, rows: 1, after: "1|s1|15|f6, 2|b|20|f7"},
	{name: "update by subquery of itself", text: map[string]string{"": "UPDATE j SET v = ? WHERE id = (SELECT min(id) FROM j)", "mysql": "UPDATE j SET v = ? WHERE id = (SELECT m FROM (SELECT min(id) AS m FROM j) AS s)"}, args: []any{"x"}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update by subquery stale", text: all("UPDATE j SET v = ? WHERE id IN (SELECT id FROM src)"), args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update row value", text: map[string]string{"": "UPDATE j SET (v, n) = (?, ?) WHERE id = ?", "mysql": "-"}, args: []any{"x", 3, 1}, rows: 1, after: "1|x|3|f6, 2|b|20|f7"},
	{name: "update row value from select", text: map[string]string{"": "UPDATE j SET (v, n) = (SELECT s.v, s.n FROM src AS s WHERE s.id = j.id) WHERE n < 15", "mysql": "-"}, rows: 1, after: "1|s1|1|f6, 2|b|20|f7"},
	{name: "update from", text: map[string]string{"": "UPDATE j SET v = s.v FROM src AS s WHERE s.id = j.id AND s.n = ?", "mysql": "UPDATE j JOIN src AS s ON s.id = j.id SET j.v = s.v WHERE s.n = ?"}, args: []any{1}, rows: 1, after: "1|s1|10|f6, 2|b|20|f7"},
	{name: "update from stale", text: map[string]string{"": "UPDATE j SET v = s.v FROM src AS s WHERE s.id = j.id", "mysql": "UPDATE j, src AS s SET j.v = s.v WHERE s.id = j.id"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update from pinned stale", text: map[string]string{"": "UPDATE j AS t SET v = s.v FROM src AS s WHERE s.id = t.id AND t.id = ?", "mysql": "UPDATE j AS t JOIN src AS s ON s.id = t.id SET t.v = s.v WHERE t.id = ?"}, args: []any{2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update behind cte", text: map[string]string{"": "WITH c AS (SELECT id FROM src WHERE n = ?) UPDATE j SET v = ? WHERE id IN (SELECT id FROM c)", "mysql": "-"}, args: []any{1, "x"}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update behind cte stale", text: map[string]string{"": "WITH c AS (SELECT id FROM src) UPDATE j SET v = ? WHERE id IN (SELECT id FROM c)", "mysql": "-"}, args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update odd spelling", text: all("/* first */ uPdAtE\n\tj\nSET -- why\n v=? /* ; */ WHERE\tid=? -- end\n;"), args: []any{"x", 1}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "update quoted", text: map[string]string{"": `UPDATE "j" SET "v" = ? WHERE "id" = ?`, "mysql": "UPDATE `j` SET `v` = ? WHERE `id` = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update upper case", text: map[string]string{"": `UPDATE J SET V = ? WHERE ID = ?`, "mysql": "UPDATE j SET V = ? WHERE ID = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update strings that look like sql", text: all("UPDATE j SET v = 'WHERE id = 1; ''UPDATE j' WHERE id = ? AND v <> '--;'"), args: []any{1}, rows: 1, after: "1|WHERE id = 1; 'UPDATE j|10|f6, 2|b|20|f7"},
	{name: "update itself assigns fence", text: all("UPDATE j SET v = ?, fence = 'x' WHERE id = ?"), args: []any{"x", 1}, err: fencedsql.ErrUnfenceable},
	{name: "update assigns fence upper case", text: all("UPDATE j SET FENCE = v WHERE id = 1"), err: fencedsql.ErrUnfenceable},

	// INSERT.
	{name: "insert", text: all("INSERT INTO j (id, v) VALUES (?, ?)"), args: []any{3, "c"}, rows: 1, after: jStart + ", 3|c|0|f6"},
	{name: "insert many rows", text: all("INSERT INTO j (id, v) VALUES (?, ?), (4, 'd'), (?, ?)"), args: []any{3, "c", 5, "e"}, rows: 3, after: jStart + ", 3|c|0|f6, 4|d|0|f6, 5|e|0|f6"},
	{name: "insert without list", text: map[string]string{"": "INSERT INTO j VALUES (?, ?, ?)"}, args: []any{3, "c", 30}, rows: 1, after: jStart + ", 3|c|30|f6"},
	{name: "insert without list with fence", text: all("INSERT INTO j VALUES (?, ?, ?, 'x')"), args: []any{3, "c", 30}, err: fencedsql.ErrUnfenceable},
	{name: "insert without list from star", text: all("INSERT INTO j SELECT * FROM src"), err: fencedsql.ErrUnfenceable},
	{name: "insert select", text: all("INSERT INTO j (id, v) SELECT id + 10, v FROM src WHERE n < ? ORDER BY id LIMIT 2"), args: []any{3}, rows: 2, after: jStart + ", 11|s1|0|f6, 12|s2|0|f6"},
	{name: "insert select union", text: all("INSERT INTO j (id, v) SELECT id + 10, v FROM src WHERE id = ? UNION ALL SELECT id + 20, ? FROM src WHERE id = 2 UNION SELECT 30, v FROM src WHERE id = 3"), args: []any{1, "u"}, rows: 3, after: jStart + ", 11|s1|0|f6, 22|u|0|f6, 30|s3|0|f6"},
	{name: "insert select distinct", text: all("INSERT INTO j (id, n) SELECT DISTINCT 40, 1 FROM src"), rows: 1, after: jStart + ", 40|NULL|1|f6"},
	{name: "insert select without list", text: all("INSERT INTO j SELECT id + 10, v, n FROM src WHERE id = 1"), rows: 1, after: jStart + ", 11|s1|1|f6"},
	{name: "insert itself assigns fence", text: all("INSERT INTO j (id, v, fence) VALUES (?, ?, 'x')"), args: []any{3, "c"}, err: fencedsql.ErrUnfenceable},
	{name: "insert on conflict nothing", text: map[string]string{"": "INSERT INTO j (id, v) VALUES (?, 'x'), (3, 'c') ON CONFLICT DO NOTHING", "mysql": "INSERT IGNORE INTO j (id, v) VALUES (?, 'x'), (3, 'c')"}, args: []any{2}, rows: 1, after: jStart + ", 3|c|0|f6"},
	{name: "insert int64", text: all("INSERT INTO counted (id, v) VALUES (?, ?)"), args: []any{3, "c"}, rows: 1, table: "counted", after: "1|a|5, 2|b|7, 3|c|6"},
	{name: "insert behind cte", text: map[string]string{"": "WITH c AS (SELECT 50 AS id) INSERT INTO j (id, v) SELECT id, ? FROM c", "mysql": "INSERT INTO j (id, v) WITH c AS (SELECT 50 AS id) SELECT id, ? FROM c"}, args: []any{"w"}, rows: 1, after: jStart + ", 50|w|0|f6"},
	{name: "insert default values", text: map[string]string{"": "INSERT INTO onlyonce (id) VALUES (?)"}, args: []any{9}, rows: 1, table: "onlyonce", after: "1|a|f5, 2|b|f7, 9|NULL|f6"},

	// Upserts.
	{name: "upsert new", text: upsert("(?, ?)"), args: []any{3, "c"}, rows: 1, after: jStart + ", 3|c|0|f6"},
	{name: "upsert live", text: upsert("(?, ?)"), args: []any{1, "x"}, rows: 1, rowsOn: map[string]int64{"mysql": 2}, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "upsert stale", text: upsert("(?, ?)"), args: []any{2, "x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "upsert three, one stale", text: upsert("(?, ?), (?, ?), (?, ?)"), args: []any{1, "x", 2, "y", 3, "z"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "upsert int64 stale", text: map[string]string{"": "INSERT INTO counted (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = excluded.v", "mysql": "INSERT INTO counted (id, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)"}, args: []any{2, "x"}, err: fencedsql.ErrFenced, fenced: "counted", stored: 7},
	{name: "upsert where not met on stale row", text: map[string]string{"": "INSERT INTO j (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE j.n > 1000", "mysql": "-"}, args: []any{2, "x"}, after: jStart},
	{name: "upsert with alias", text: map[string]string{"": "INSERT INTO j AS t (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = t.v || excluded.v", "mysql": "-"}, args: []any{1, "x"}, rows: 1, after: "1|ax|10|f6, 2|b|20|f7"},
	{name: "upsert from select", text: map[string]string{"": "INSERT INTO j (id, v) SELECT id, v FROM src WHERE id = ? ON CONFLICT (id) DO UPDATE SET v = excluded.v", "mysql": "INSERT INTO j (id, v) SELECT id, v FROM src WHERE id = ? ON DUPLICATE KEY UPDATE v = VALUES(v)"}, args: []any{2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "upsert assigns fence", text: map[string]string{"": "INSERT INTO j (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence", "mysql": "INSERT INTO j (id, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE fence = VALUES(fence)"}, args: []any{1, "x"}, err: fencedsql.ErrUnfenceable},

	// DELETE.
	{name: "delete one", text: all("DELETE FROM j WHERE id = ?"), args: []any{1}, rows: 1, after: "2|b|20|f7"},
	{name: "delete one stale", text: all("DELETE FROM j WHERE id = ?"), args: []any{2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete one gone", text: all("DELETE FROM j WHERE id = ?"), args: []any{99}, after: jStart},
	{name: "delete many live", text: all("DELETE FROM j WHERE n < ?"), args: []any{15}, rows: 1, after: "2|b|20|f7"},
	{name: "delete many one stale", text: all("DELETE FROM j WHERE id IN (?, ?)"), args: []any{1, 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete all", text: all("DELETE FROM j"), err: fencedsql.ErrFenced, stored: 7},
	{name: "delete all of none", text: all("DELETE FROM j WHERE n > 1000"), after: jStart},
	{name: "delete without registered key", text: all("DELETE FROM nokey WHERE id = ?"), args: []any{1}, rows: 1, table: "nokey", after: "2|b|f7"},
	{name: "delete by subquery", text: all("DELETE FROM j WHERE id IN (SELECT id FROM src WHERE n = ?)"), args: []any{1}, rows: 1, after: "2|b|20|f7"},
	{name: "delete behind cte", text: map[string]string{"": "WITH c AS (SELECT id FROM src WHERE n = ?) DELETE FROM j WHERE id IN (SELECT id FROM c)", "mysql": "-"}, args: []any{1}, rows: 1, after: "2|b|20|f7"},
	{name: "delete with alias", text: map[string]string{"": "DELETE FROM j AS t WHERE t.n < ?", "mysql": "DELETE t FROM j AS t WHERE t.n < ?"}, args: []any{15}, rows: 1, after: "2|b|20|f7"},
	{name: "delete with alias stale", text: map[string]string{"": "DELETE FROM j AS t WHERE t.n > ?", "mysql": "DELETE t FROM j AS t WHERE t.n > ?"}, args: []any{0}, err: fencedsql.ErrFenced, stored: 7},
	{name: "no blank behind", text: all("UPDATE j SET v='x'WHERE id=1"), rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "delete int64 stale", text: all("DELETE FROM counted WHERE v = ?"), args: []any{"b"}, err: fencedsql.ErrFenced, fenced: "counted", stored: 7},

	// Refused kinds.
	{name: "replace", text: map[string]string{"": "-", "sqlite": "REPLACE INTO j (id, v) VALUES (?, ?)", "mysql": "REPLACE INTO j (id, v) VALUES (?, ?)"}, args: []any{2, "x"}, err: fencedsql.ErrUnfenceable},
	{name: "insert or replace", text: map[string]string{"": "-", "sqlite": "INSERT OR REPLACE INTO j (id, v) VALUES (?, ?)"}, args: []any{2, "x"}, err: fencedsql.ErrUnfenceable},
	{name: "update or replace", text: map[string]string{"": "-", "sqlite": "UPDATE OR REPLACE j SET id = 2 WHERE id = 1"}, err: fencedsql.ErrUnfenceable},
	{name: "truncate", text: map[string]string{"": "TRUNCATE TABLE j", "sqlite": "-"}, err: fencedsql.ErrUnfenceable},
	{name: "drop table", text: all("DROP TABLE j"), err: fencedsql.ErrUnfenceable},
	{name: "drop table if exists", text: map[string]string{"": `DROP TABLE IF EXISTS "j"`, "mysql": "DROP TABLE IF EXISTS `j`"}, err: fencedsql.ErrUnfenceable},
	{name: "rename table", text: all("ALTER TABLE j RENAME TO k"), err: fencedsql.ErrUnfenceable},
	{name: "rename fence column", text: all("ALTER TABLE j RENAME COLUMN fence TO f"), err: fencedsql.ErrUnfenceable},
	{name: "drop fence column", text: all("ALTER TABLE j DROP COLUMN fence"), err: fencedsql.ErrUnfenceable},
	{name: "not sql", text: all("UPDATE j SET SET v = 1"), err: fencedsql.ErrUnfenceable},
	{name: "two statements", text: all("UPDATE j SET v = 'x' WHERE id = 1; UPDATE j SET v = 'y' WHERE id = 2"), err: fencedsql.ErrUnfenceable},
	{name: "write behind a select", text: all("SELECT 1; UPDATE j SET v = 'x'"), err: fencedsql.ErrUnfenceable},
	{name: "write before another table's", text: all("DELETE FROM j; DELETE FROM plain"), err: fencedsql.ErrUnfenceable},

	// PostgreSQL's own.
	{name: "update only", text: map[string]string{"": "-", "postgres": "UPDATE ONLY public.j SET v = ? WHERE id = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update in cte stale", text: map[string]string{"": "-", "postgres": "WITH u AS (UPDATE j SET v = ? WHERE id = 2 RETURNING id) SELECT * FROM u"}, args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update in cte live", text: map[string]string{"": "-", "postgres": "WITH u AS (UPDATE j SET v = ? WHERE id = 1 RETURNING id) SELECT * FROM u"}, args: []any{"x"}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "unread delete in cte stale", text: map[string]string{"": "-", "postgres": "WITH d AS (DELETE FROM j) UPDATE plain SET v = 'x'"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "insert in cte", text: map[string]string{"": "-", "postgres": "WITH i AS (INSERT INTO j (id, v) VALUES (?, 'i') RETURNING id) INSERT INTO plain (id, v) SELECT id, 'p' FROM i"}, args: []any{9}, rows: 1, after: jStart + ", 9|i|0|f6"},
	{name: "two fenced tables", text: map[string]string{"": "-", "postgres": "WITH a AS (UPDATE j SET v = 'x' WHERE id = 1) UPDATE nokey SET v = 'x' WHERE id = 2"}, err: fencedsql.ErrFenced, fenced: "j or nokey", stored: 7},
	{name: "another table in a cte stale", text: map[string]string{"": "-", "postgres": "WITH a AS (INSERT INTO plain (id, v) VALUES (5, 'p')) UPDATE j SET v = 'x' WHERE id = ?"}, args: []any{2}, err: fencedsql.ErrFenced, stored: 7, table: "plain", after: "1|p"},
	{name: "another table in a cte live", text: map[string]string{"": "-", "postgres": "WITH a AS (DELETE FROM plain) DELETE FROM j WHERE id = ?"}, args: []any{1}, rows: 1, after: "2|b|20|f7"},
	{name: "one fenced table twice", text: map[string]string{"": "-", "postgres": "WITH a AS (UPDATE j SET v = 'x' WHERE id = 1) UPDATE j SET v = 'x' WHERE id = 2"}, err: fencedsql.ErrFenced, fenced: "j", stored: 7},
	{name: "delete using", text: map[string]string{"": "-", "postgres": "DELETE FROM j USING src WHERE src.id = j.id AND src.n = ?"}, args: []any{1}, rows: 1, after: "2|b|20|f7"},
	{name: "delete using stale", text: map[string]string{"": "-", "postgres": "DELETE FROM j USING src AS s WHERE s.id = j.id"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "casts and operators", text: map[string]string{"": "-", "postgres": "UPDATE j SET v = 'x'::text || $q$??'$q$, n = n + 1::int8::int4 WHERE id = (1)::int AND '{\"a\":1}'::jsonb ??| array['a']"}, rows: 1, after: "1|x?'|11|f6, 2|b|20|f7"},
	{name: "escaped name", text: map[string]string{"": "-", "postgres": `UPDATE U&"\006a" SET v = ? WHERE id = ?`}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "default values postgres", text: map[string]string{"": "-", "postgres": "INSERT INTO nokey DEFAULT VALUES"}, rows: 1, table: "nokey", after: "1|a|f5, 2|b|f7, NULL|NULL|f6"},
	{name: "short insert", text: map[string]string{"": "-", "postgres": "INSERT INTO j VALUES (?, ?)"}, args: []any{3, "c"}, rows: 1, after: jStart + ", 3|c|0|f6"},
	{name: "on constraint", text: map[string]string{"": "-", "postgres": "INSERT INTO j (id, v) VALUES (?, ?) ON CONFLICT ON CONSTRAINT j_pkey DO UPDATE SET (v, n) = (excluded.v, 1) WHERE j.n > 0"}, args: []any{2, "x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "overriding", text: map[string]string{"": "-", "postgres": "INSERT INTO j (id, v) OVERRIDING SYSTEM VALUE VALUES (?, ?)"}, args: []any{3, "c"}, rows: 1, after: jStart + ", 3|c|0|f6"},
	{name: "merge", text: map[string]string{"": "-", "postgres": "MERGE INTO j USING src ON src.id = j.id WHEN MATCHED THEN UPDATE SET v = src.v"}, err: fencedsql.ErrUnfenceable},
	{name: "copy", text: map[string]string{"": "-", "postgres": "COPY j (id, v) FROM STDIN"}, err: fencedsql.ErrUnfenceable},
	{name: "current of", text: map[string]string{"": "-", "postgres": "UPDATE j SET v = 'x' WHERE CURRENT OF c"}, err: fencedsql.ErrUnfenceable},
	{name: "do", text: map[string]string{"": "-", "postgres": "DO $$ BEGIN UPDATE j SET v = 'x'; END $$"}, err: fencedsql.ErrUnfenceable},
	{name: "explain analyze", text: map[string]string{"": "-", "postgres": "EXPLAIN (ANALYZE, COSTS off) UPDATE j SET v = 'x'"}, err: fencedsql.ErrUnfenceable},
	{name: "prepare", text: map[string]string{"": "-", "postgres": "PREPARE p AS UPDATE j SET v = 'x'"}, err: fencedsql.ErrUnfenceable},
	{name: "select into", text: map[string]string{"": "-", "postgres": "SELECT 1 AS id INTO j"}, err: fencedsql.ErrUnfenceable},
	{name: "truncate many", text: map[string]string{"": "-", "postgres": "TRUNCATE plain, ONLY j CASCADE"}, err: fencedsql.ErrUnfenceable},

	// MySQL's and MariaDB's own.
	{name: "insert set", text: map[string]string{"": "-", "mysql": "INSERT INTO j SET id = ?, v = ?"}, args: []any{3, "c"}, rows: 1, after: jStart + ", 3|c|0|f6"},
	{name: "insert set upsert stale", text: map[string]string{"": "-", "mysql": "INSERT INTO j SET id = ?, v = ? ON DUPLICATE KEY UPDATE v = VALUES(v), n = n + 1"}, args: []any{2, "c"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update order limit stale", text: map[string]string{"": "-", "mysql": "UPDATE LOW_PRIORITY IGNORE j SET v = ? WHERE n > ? ORDER BY n DESC LIMIT 1"}, args: []any{"x", 0}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update order limit live", text: map[string]string{"": "-", "mysql": "UPDATE j SET v = ? ORDER BY n LIMIT 1"}, args: []any{"x"}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "delete ignore stale", text: map[string]string{"": "-", "mysql": "DELETE IGNORE FROM j WHERE n > ?"}, args: []any{0}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete volatile stale", text: map[string]string{"": "-", "mysql": "DELETE IGNORE FROM j WHERE n > ? AND rand() < ?"}, args: []any{0, 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete volatile live", text: map[string]string{"": "-", "mysql": "DELETE FROM j WHERE rand() < ? AND n < ?"}, args: []any{2, 20}, rows: 1, after: "2|b|20|f7"},
	{name: "delete order limit live", text: map[string]string{"": "-", "mysql": "DELETE QUICK FROM j WHERE n > ? ORDER BY n LIMIT ?"}, args: []any{0, 1}, rows: 1, after: "2|b|20|f7"},
	{name: "delete order limit stale", text: map[string]string{"": "-", "mysql": "DELETE FROM j ORDER BY n DESC LIMIT 1"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete of several tables stale", text: map[string]string{"": "-", "mysql": "DELETE t, src FROM j AS t JOIN src ON src.id = t.id WHERE t.n > ?"}, args: []any{15}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete of several tables live", text: map[string]string{"": "-", "mysql": "DELETE FROM t USING j AS t JOIN src ON src.id = t.id WHERE t.n < ?"}, args: []any{15}, rows: 1, after: "2|b|20|f7"},
	{name: "update of two fenced tables", text: map[string]string{"": "-", "mysql": "UPDATE j AS a JOIN nokey AS b ON b.id = a.id SET a.v = 'x', b.v = 'y' WHERE a.id = ?"}, args: []any{1}, rows: 2, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "hint", text: map[string]string{"": "-", "mysql": "UPDATE /*+ NO_MERGE(j) */ j SET v = ? WHERE id = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "executable comment", text: map[string]string{"": "-", "mysql": "UPDATE j SET v = 'x' /*!50000 WHERE id = 1 */"}, err: fencedsql.ErrUnfenceable},
	{name: "executable comment of mariadb", text: map[string]string{"": "-", "mysql": "/*M! DELETE FROM j */"}, err: fencedsql.ErrUnfenceable},
	{name: "dashes that are no comment", text: map[string]string{"": "-", "mysql": "UPDATE j SET n = n --1 WHERE id = ?"}, args: []any{1}, rows: 1, after: "1|a|11|f6, 2|b|20|f7"},
	{name: "hash comment", text: map[string]string{"": "-", "mysql": "UPDATE j # WHERE\n SET v = ? WHERE id = ? # end"}, args: []any{"x", 1}, rows: 1, after: "1|x|10|f6, 2|b|20|f7"},
	{name: "load data", text: map[string]string{"": "-", "mysql": "LOAD DATA LOCAL INFILE 'x' INTO TABLE j"}, err: fencedsql.ErrUnfenceable},
	{name: "insert empty row", text: map[string]string{"": "-", "mysql": "INSERT INTO nokey () VALUES ()"}, rows: 1, table: "nokey", after: "NULL|NULL|f6, 1|a|f5, 2|b|f7"},

	// SQLite's own.
	{name: "update or ignore", text: map[string]string{"": "-", "sqlite": "UPDATE OR IGNORE j SET v = ? WHERE n > 0"}, args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update or fail", text: map[string]string{"": "-", "sqlite": "UPDATE OR FAIL j SET v = ? WHERE n > 0"}, args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update or rollback", text: map[string]string{"": "-", "sqlite": "UPDATE OR ROLLBACK j SET v = ? WHERE n > 0"}, args: []any{"x"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update or ignore conflict", text: map[string]string{"": "-", "sqlite": "UPDATE OR IGNORE j SET id = 2 WHERE id = 1"}, after: jStart},
	{name: "update not indexed", text: map[string]string{"": "-", "sqlite": "UPDATE j NOT INDEXED SET v = ? WHERE id = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete not indexed", text: map[string]string{"": "-", "sqlite": "DELETE FROM j NOT INDEXED"}, err: fencedsql.ErrFenced, stored: 7},
	{name: "delete not indexed live", text: map[string]string{"": "-", "sqlite": "DELETE FROM main.j NOT INDEXED WHERE n < 15;"}, rows: 1, after: "2|b|20|f7"},
	{name: "update schema", text: map[string]string{"": "-", "sqlite": "UPDATE main.j SET v = ? WHERE j.id = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update brackets", text: map[string]string{"": "-", "sqlite": "UPDATE [main].[J] SET [v] = ? WHERE `id` = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "update string as name", text: map[string]string{"": "-", "sqlite": "UPDATE 'j' SET 'v' = ? WHERE id = ?"}, args: []any{"x", 2}, err: fencedsql.ErrFenced, stored: 7},
	{name: "numbered parameters", text: map[string]string{"": "-", "sqlite": "UPDATE j SET n = ?3, v = ?1 WHERE id = ?2"}, args: []any{"x", 1, 33}, rows: 1, after: "1|x|33|f6, 2|b|20|f7"},
	{name: "named parameters", text: map[string]string{"": "-", "sqlite": "UPDATE j SET v = :v, n = @n WHERE id = $id"}, args: []any{sql.Named("id", 1), sql.Named("v", "x"), sql.Named("n", 4)}, rows: 1, after: "1|x|4|f6, 2|b|20|f7"},
	{name: "named parameters by position", text: map[string]string{"": "-", "sqlite": "UPDATE j SET v = :v, n = :n WHERE id = :id"}, args: []any{"x", 4, 1}, rows: 1, after: "1|x|4|f6, 2|b|20|f7"},
	{name: "named parameters stale", text: map[string]string{"": "-", "sqlite": "UPDATE j SET v = :v WHERE id = @id"}, args: []any{sql.Named("v", "x"), sql.Named("id", 2)}, err: fencedsql.ErrFenced, stored: 7},
	{name: "named delete stale", text: map[string]string{"": "-", "sqlite": "DELETE FROM j WHERE id = $id"}, args: []any{sql.Named("id", 2)}, err: fencedsql.ErrFenced, stored: 7},
	{name: "dollar numbers", text: map[string]string{"": "-", "sqlite": "UPDATE j SET v = $1, n = $2 WHERE id = $3"}, args: []any{"x", 99, 1}, rows: 1, after: "1|x|99|f6, 2|b|20|f7"},
	{name: "dollar numbers in an insert", text: map[string]string{"": "-", "sqlite": "INSERT INTO j (id, v) VALUES ($1, $2), ($3, $4)"}, args: []any{3, "c", 4, "d"}, rows: 2, after: jStart + ", 3|c|0|f6, 4|d|0|f6"},
	{name: "dollar numbers out of order", text: map[string]string{"": "-", "sqlite": "UPDATE j SET v = $2 WHERE id = $1"}, args: []any{1, "x"}, err: fencedsql.ErrUnfenceable},
	{name: "mixed parameters", text: map[string]string{"": "-", "sqlite": "INSERT INTO j (id, v, n) VALUES (?, :v, ?3), (?4, :v, ?)"}, args: []any{3, "w", 7, 4, 8}, rows: 2, after: jStart + ", 3|w|7|f6, 4|w|8|f6"},
	{name: "insert default values of all", text: map[string]string{"": "-", "sqlite": "INSERT INTO j DEFAULT VALUES"}, rows: 1, after: jStart + ", 3|NULL|0|f6"},
	{name: "upsert several clauses", text: map[string]string{"": "-", "sqlite": "INSERT INTO j (id, v) VALUES (?, ?) ON CONFLICT (id) WHERE id > 1 DO NOTHING ON CONFLICT DO UPDATE SET v = excluded.v"}, args: []any{3, "x"}, rows: 1, after: jStart + ", 3|x|0|f6"},
	{name: "values in union", text: map[string]string{"": "-", "sqlite": "INSERT INTO j (id, v) VALUES (11, 'a') UNION SELECT id + 11, v FROM src WHERE id = ? UNION ALL VALUES (?, ?)"}, args: []any{1, 13, "z"}, rows: 3, after: jStart + ", 11|a|0|f6, 12|s1|0|f6, 13|z|0|f6"},
	{name: "create table as", text: map[string]string{"": "-", "sqlite": "CREATE TABLE main.j AS SELECT 1"}, err: fencedsql.ErrUnfenceable},
}

func upsert(rows string) map[string]string {
	return map[string]string{
		"":      "INSERT INTO j (id, v) VALUES " + rows + " ON CONFLICT (id) DO UPDATE SET v = excluded.v",
		"mysql": "INSERT INTO j (id, v) VALUES " + rows + " ON DUPLICATE KEY UPDATE v = VALUES(v)",
	}
}

// road is a way by which a statement may reach the database.
type road struct {
	name string
	run  func(v *env, ctx context.Context, text string, args []any) (int64, error)
	// uncounted roads tell no number of rows.
	uncounted bool
}

var roads = []road{
	{name: "Exec", run: func(v *env, ctx context.Context, text string, args []any) (int64, error) {
		return affected(v.db.ExecContext(ctx, text, args...))
	}},
	{name: "Query", uncounted: true, run: func(v *env, ctx context.Context, text string, args []any) (int64, error) {
		return drain(v.db.QueryContext(ctx, text, args...))
	}},
	{name: "QueryRow", uncounted: true, run: func(v *env, ctx context.Context, text string, args []any) (int64, error) {
		var x any
		err := v.db.QueryRowContext(ctx, text, args...).Scan(&x)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return 0, err
	}},
	{name: "prepared Exec", run: func(v *env, ctx context.Context, text string, args []any) (int64, error) {
		st, err := v.db.PrepareContext(context.Background(), text)
		if err != nil {
			return 0, err
		}
		defer st.Close()
		return affected(st.ExecContext(ctx, args...))
	}},
	{name: "prepared Query", uncounted: true, run: func(v *env, ctx context.Context, text string, args []any) (int64, error) {
		st, err := v.db.PrepareContext(context.Background(), text)
		if err != nil {
			return 0, err
		}
		defer st.Close()
		return drain(st.QueryContext(ctx, args...))
	}},
	{name: "transaction", run: func(v *env, ctx context.Context, text string, args []any) (n int64, err error) {
		err = inTx(v.db, context.Background(), func(tx *sql.Tx) (err error) {
			n, err = affected(tx.ExecContext(ctx, text, args...))
			return err
		})
		return n, err
	}},
	{name: "lease of BeginTx", run: func(v *env, ctx context.Context, text string, args []any) (n int64, err error) {
		err = inTx(v.db, ctx, func(tx *sql.Tx) (err error) {
			n, err = affected(tx.Exec(text, args...))
			return err
		})
		return n, err
	}},
	{name: "prepared in transaction", run: func(v *env, ctx context.Context, text string, args []any) (n int64, err error) {
		err = inTx(v.db, ctx, func(tx *sql.Tx) (err error) {
			st, err := tx.Prepare(text)
			if err != nil {
				return err
			}
			defer st.Close()
			n, err = affected(st.Exec(args...))
			return err
		})
		return n, err
	}},
	{name: "pinned connection", run: func(v *env, ctx context.Context, text string, args []any) (int64, error) {
		c, err := v.db.Conn(context.Background())
		if err != nil {
			return 0, err
		}
		defer c.Close()
		return affected(c.ExecContext(ctx, text, args...))
	}},
}

func drain(rs *sql.Rows, err error) (n int64, _ error) {
	if err != nil {
		return 0, err
	}
	defer rs.Close()
	for rs.Next() {
		n++
	}
	return n, rs.Err()
}

func inTx(db *sql.DB, ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		cerr := tx.Commit()
		// After a refusal that reached the database nothing may be committed.
		if errors.Is(err, fencedsql.ErrFenced) && !errors.Is(cerr, fencedsql.ErrFenced) {
			return errors.New("Commit went through after ErrFenced")
		}
		return err
	}
	return tx.Commit()
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		base := e.open(t)
		for i := range statements {
			s := &statements[i]
			text, ok := s.on(e.dialect)
			if !ok {
				continue
			}
			t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
				for _, r := range roads {
					t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
						base.with(gapped(t, e, s.name)).statement(s, e.mark(text), r)
					})
				}
			})
		}
	})
}

func (v *env) statement(s *statement, text string, r road) {
	v.Helper()
	before := v.everything()
	n, err := r.run(v, v.under(6), text, s.args)
	switch {
	case s.err != nil:
		if errors.Is(s.err, fencedsql.ErrFenced) {
			table := s.fenced
			if table == "" {
				table = "j"
			}
			v.fenced(err, table, 6, s.stored)
		} else {
			v.is(err, s.err)
		}
		if after := v.everything(); after != before {
			v.Errorf("refused, and yet the rows are\n\t%s\nwere\n\t%s", after, before)
		}
	case err != nil:
		v.Errorf("live, and yet: %v", err)
	default:
		want := s.rows
		if own, ok := s.rowsOn[v.dialect]; ok {
			want = own
		}
		if !r.uncounted && n != want {
			v.Errorf("changed %d rows, want %d", n, want)
		}
		table := s.table
		if table == "" {
			table = "j"
		}
		v.want(table, s.after)
	}
	v.clean()

	// No lease, no write; with Unfenced as the bare driver would have it.
	v.reset()
	_, err = r.run(v, v.under(0), text, s.args)
	if s.err == nil || errors.Is(s.err, fencedsql.ErrFenced) {
		v.is(err, fencedsql.ErrNoLease)
	} else {
		v.is(err, s.err)
	}
	if after := v.everything(); after != before {
		v.Errorf("without a lease, and yet the rows are\n\t%s\nwere\n\t%s", after, before)
	}
	v.clean()
}

// TestWitness: it records bare writes of every kind, in every fenced table.
func TestWitness(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		v := e.open(t)
		for _, table := range tables {
			columns := "(id, v) VALUES (3, 'x')"
			if table.Name == "pair" {
				columns = "(a, b, v) VALUES (3, 3, 'x')"
			}
			for _, write := range []string{"INSERT INTO " + table.Name + " " + columns, "UPDATE " + table.Name + " SET v = 'x'", "DELETE FROM " + table.Name} {
				v.reset()
				v.under(6)
				v.do(write)
				if op, _, _ := strings.Cut(write, " "); !strings.Contains(v.show("violations"), op+" "+table.Name) {
					t.Errorf("%s: not seen", write)
				}
			}
		}
	})
}

// everything shows all fenced tables.
func (v *env) everything() string {
	v.Helper()
	var out []string
	for _, t := range tables {
		out = append(out, t.Name+": "+v.show(t.Name))
	}
	return strings.Join(append(out, "plain: "+v.show("plain")), "\n\t")
}

// gapped is t, but for a gap of the engine: then a test that passes fails.
func gapped(t *testing.T, e *engine, name string) testing.TB {
	reason, gap := e.gaps[name]
	if !gap {
		return t
	}
	g := &gapTB{TB: t}
	t.Cleanup(func() {
		if !g.failed {
			t.Errorf("the gap is closed, take it out of the list: %s", reason)
		}
	})
	return g
}

// gapTB takes failures in.
type gapTB struct {
	testing.TB
	failed bool
}

func (g *gapTB) Errorf(string, ...any) { g.failed = true }
func (g *gapTB) Error(...any)          { g.failed = true }
