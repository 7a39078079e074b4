package integration

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/witness"
)

// resultTexts are what a dialect's writes tell besides their count.
type resultTexts struct {
	// counters is a fenced table with rows 1 to 3.
	counters []string
	// ids reads the identifiers that the connection keeps of its last write,
	// and counts the numbers of rows.
	ids, counts string
	steps       []step
}

// step is a write to counters, under the lease that wrote its rows last.
type step struct {
	text string
	args []any
	// query is for a text that gives rows.
	query bool
	// another statement was sent with it, so that the counts are of that: what
	// checks the table before its first write, what asks why a pinned write
	// changed no row, and what locks rows before a DELETE of many on MySQL.
	another bool
	// noID is a DELETE whose rows are counted, which tells no id.
	noID bool
}

var results = map[string]*resultTexts{
	"mysql": {
		counters: []string{
			`CREATE TABLE counters (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(20) UNIQUE, n INT NOT NULL DEFAULT 0, fence CHAR(40) NOT NULL DEFAULT '` + text(0) + `')`,
			`INSERT INTO counters (k, n, fence) VALUES ('a', 10, '` + text(6) + `'), ('b', 20, '` + text(6) + `'), ('c', 30, '` + text(6) + `')`,
		},
		ids:    "SELECT LAST_INSERT_ID()",
		counts: "SELECT ROW_COUNT(), FOUND_ROWS()",
		steps: []step{
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n + 1) WHERE id = ?", args: []any{1}, another: true},
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n + 1) WHERE id = 2"},
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n + ?) WHERE k = ?", args: []any{3, "c"}},
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n + 1) WHERE id = ?", args: []any{99}, another: true},
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n + 1) WHERE id = ? AND n > 1000", args: []any{1}, another: true},
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n) WHERE id = ?", args: []any{1}, another: true},
			{text: "UPDATE counters SET n = LAST_INSERT_ID(n) + 1 WHERE n > 0 ORDER BY id DESC"},
			{text: "UPDATE counters SET n = n + 1 WHERE n = LAST_INSERT_ID(?)", args: []any{12}},
			{text: "UPDATE counters SET n = LAST_INSERT_ID() WHERE id = ?", args: []any{2}},
			{text: "UPDATE counters AS c JOIN src AS s ON s.id = c.id SET c.n = LAST_INSERT_ID(c.n + s.n) WHERE s.id = ?", args: []any{1}},
			{text: "INSERT INTO counters (k) VALUES (?)", args: []any{"d"}},
			{text: "UPDATE counters SET n = 1 WHERE id = LAST_INSERT_ID()"},
			{text: "INSERT INTO counters (k) VALUES (?), ('f'), (?)", args: []any{"e", "g"}},
			{text: "INSERT INTO counters (k, n) SELECT v, LAST_INSERT_ID() FROM src ORDER BY id"},
			{text: "INSERT INTO counters (id, k) VALUES (?, ?)", args: []any{50, "h"}},
			{text: "INSERT INTO counters SET k = ?, n = LAST_INSERT_ID(?)", args: []any{"i", 1000}},
			{text: "INSERT IGNORE INTO counters (k) VALUES (?)", args: []any{"a"}},
			{text: "INSERT IGNORE INTO counters (k) VALUES (?), ('j')", args: []any{"a"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)", args: []any{"a"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)", args: []any{"k"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), n = n + ?", args: []any{"b", 5}},
			{text: "INSERT INTO counters (k) VALUES (?) ON DUPLICATE KEY UPDATE n = LAST_INSERT_ID(n + 1)", args: []any{"c"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON DUPLICATE KEY UPDATE n = n + 1", args: []any{"c"}},
			{text: "INSERT INTO counters (k) VALUES (?), ('l'), (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), n = VALUES(n) + 1", args: []any{"a", "b"}},
			{text: "DELETE FROM counters WHERE id = ?", args: []any{50}},
			{text: "DELETE FROM counters WHERE id = ?", args: []any{50}, another: true},
			{text: "DELETE FROM counters WHERE n = 1000", another: true},
			{text: "INSERT INTO counters (k) VALUES (?) RETURNING id", args: []any{"m"}, query: true},
		},
	},
	"sqlite": {
		counters: []string{
			`CREATE TABLE counters (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT UNIQUE, n INTEGER NOT NULL DEFAULT 0, fence TEXT NOT NULL DEFAULT '` + text(0) + `')`,
			`INSERT INTO counters (k, n, fence) VALUES ('a', 10, '` + text(6) + `'), ('b', 20, '` + text(6) + `'), ('c', 30, '` + text(6) + `')`,
		},
		ids:    "SELECT last_insert_rowid()",
		counts: "SELECT changes(), total_changes()",
		steps: []step{
			{text: "INSERT INTO counters (k) VALUES (?)", args: []any{"d"}},
			{text: "INSERT INTO counters (k) VALUES (?), ('f'), (?)", args: []any{"e", "g"}},
			{text: "INSERT INTO counters (k, n) SELECT v, last_insert_rowid() FROM src ORDER BY id"},
			{text: "INSERT INTO counters (id, k) VALUES (?, ?)", args: []any{50, "h"}},
			{text: "INSERT OR IGNORE INTO counters (k) VALUES (?), (?)", args: []any{"a", "i"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON CONFLICT (k) DO UPDATE SET n = n + 1", args: []any{"a"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON CONFLICT (k) DO UPDATE SET n = n + 1", args: []any{"j"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON CONFLICT DO NOTHING", args: []any{"j"}},
			{text: "UPDATE counters SET n = changes() WHERE id = ?", args: []any{1}},
			{text: "UPDATE counters SET n = last_insert_rowid() WHERE id = ?", args: []any{2}},
			{text: "UPDATE counters SET n = n + 1 WHERE id = ?", args: []any{99}},
			{text: "UPDATE counters SET n = n + 1 WHERE id = ? AND n > 1000", args: []any{1}},
			{text: "UPDATE counters SET n = n + 1 WHERE n > ?", args: []any{15}},
			{text: "UPDATE counters SET n = n WHERE n > ?", args: []any{100000}},
			{text: "UPDATE counters SET n = n + 1 WHERE n > ? RETURNING id", args: []any{15}, query: true},
			{text: "INSERT INTO counters (k) VALUES (?) RETURNING id", args: []any{"k"}, query: true},
			{text: "DELETE FROM counters WHERE id = ?", args: []any{50}},
			{text: "DELETE FROM counters WHERE id = ?", args: []any{50}},
			{text: "DELETE FROM counters WHERE k IN ('d', 'e')", noID: true},
			{text: "DELETE FROM counters WHERE n > ?", args: []any{100000}, noID: true},
		},
	},
	"postgres": {
		counters: []string{
			`CREATE TABLE counters (id serial PRIMARY KEY, k text UNIQUE, n integer NOT NULL DEFAULT 0, fence text NOT NULL DEFAULT '` + text(0) + `')`,
			`INSERT INTO counters (k, n, fence) VALUES ('a', 10, '` + text(6) + `'), ('b', 20, '` + text(6) + `'), ('c', 30, '` + text(6) + `')`,
		},
		ids: "SELECT lastval(), currval('counters_id_seq')",
		steps: []step{
			{text: "INSERT INTO counters (k) VALUES (?)", args: []any{"d"}},
			{text: "INSERT INTO counters (k) VALUES (?), ('f'), (?)", args: []any{"e", "g"}},
			{text: "INSERT INTO counters (k, n) SELECT v, lastval() FROM src ORDER BY id"},
			{text: "INSERT INTO counters (id, k) VALUES (?, ?)", args: []any{50, "h"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON CONFLICT (k) DO UPDATE SET n = counters.n + 1", args: []any{"a"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON CONFLICT (k) DO UPDATE SET n = counters.n + 1", args: []any{"j"}},
			{text: "INSERT INTO counters (k) VALUES (?) ON CONFLICT DO NOTHING", args: []any{"j"}},
			{text: "INSERT INTO counters VALUES (DEFAULT, ?)", args: []any{"k"}},
			{text: "UPDATE counters SET n = lastval() WHERE id = ?", args: []any{1}},
			{text: "UPDATE counters SET n = nextval('counters_id_seq') WHERE id = ?", args: []any{2}},
			{text: "UPDATE counters SET n = nextval('counters_id_seq') WHERE id = ?", args: []any{99}},
			{text: "UPDATE counters SET n = nextval('counters_id_seq') WHERE n > 15"},
			{text: "INSERT INTO counters (k) VALUES (?) RETURNING id", args: []any{"l"}, query: true},
			{text: "DELETE FROM counters WHERE id = ?", args: []any{50}},
			{text: "DELETE FROM counters WHERE n > ?", args: []any{15}, noID: true},
		},
	},
}

// TestResults: what a write tells besides its count, in its Result and in the
// functions that the engine has for it, is what it tells bare. Two databases
// live through the same writes.
func TestResults(t *testing.T) {
	// PgBouncer, pooling transactions, keeps nothing from one to the next.
	for _, e := range named(engines(), "sqlite3", "modernc", "pgx", "pq", "postgres18", "mariadb") {
		for road, tell := range resultRoads {
			t.Run(e.name+"/"+road, func(t *testing.T) { testResults(t, e, tell) })
		}
	}
}

// session is a connection, or a transaction on it.
type session interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, text string) (*sql.Stmt, error)
}

// resultRoad runs a step, with the engine's text of it, and shows what it tells.
type resultRoad func(t *testing.T, ctx context.Context, on session, text string, s step) string

var resultRoads = map[string]resultRoad{
	"Exec": func(t *testing.T, ctx context.Context, on session, text string, s step) string {
		res, err := on.ExecContext(ctx, text, s.args...)
		return told(t, s, res, err)
	},
	"prepared": func(t *testing.T, ctx context.Context, on session, text string, s step) string {
		st, err := on.PrepareContext(ctx, text)
		if err != nil {
			t.Fatalf("%s: %v", s.text, err)
		}
		defer st.Close()
		res, err := st.ExecContext(ctx, s.args...)
		return told(t, s, res, err)
	},
	"Query": func(t *testing.T, ctx context.Context, on session, text string, s step) string {
		rs, err := on.QueryContext(ctx, text, s.args...)
		if err != nil {
			t.Fatalf("%s: %v", s.text, err)
		}
		return witness.Render(t, rs)
	},
}

func told(t *testing.T, s step, res sql.Result, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", s.text, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		t.Fatalf("%s: %v", s.text, err)
	}
	if s.noID {
		return fmt.Sprintf("%d rows", n)
	}
	id, err := res.LastInsertId()
	return fmt.Sprintf("%d rows, id %d, %v", n, id, err)
}

func testResults(t *testing.T, e *engine, tell resultRoad) {
	r := results[e.dialect]
	opt := fencedsql.WithTables(append(tables, fencedsql.Table{Name: "counters", Key: []string{"id"}})...)
	bare, fenced := e.open(t, opt), e.open(t, opt)
	ctx := fenced.under(6)
	// One connection each, and others to look at the rows.
	dbs := map[*env]*sql.DB{bare: bare.again(opt).bare, fenced: fenced.again(opt).db}
	for v, db := range dbs {
		v.do(r.counters...)
		db.SetMaxOpenConns(1)
	}
	run := func(v *env, s step, on session) string {
		road := tell
		if s.query {
			road = resultRoads["Query"]
		}
		read := func(text string) string {
			rs, err := on.QueryContext(ctx, text)
			if err != nil {
				t.Fatal(err)
			}
			return witness.Render(t, rs)
		}
		out := "told " + road(t, ctx, on, v.mark(s.text), s)
		if r.counts != "" && !s.another {
			out += "; counts " + read(r.counts)
		}
		return out + "; ids " + read(r.ids)
	}
	rows := func(v *env) string {
		rs, err := v.bare.Query("SELECT id, k, n FROM counters ORDER BY id")
		if err != nil {
			t.Fatal(err)
		}
		return witness.Render(t, rs)
	}
	for _, inTx := range []bool{false, true} {
		for _, v := range []*env{bare, fenced} {
			v.do("DELETE FROM counters WHERE id > 3", "UPDATE counters SET n = id * 10, fence = '"+text(6)+"'")
		}
		for _, s := range r.steps {
			outcomes := map[*env]string{}
			for v, db := range dbs {
				conn, err := db.Conn(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if inTx {
					tx, err := conn.BeginTx(ctx, nil)
					if err != nil {
						t.Fatal(err)
					}
					outcomes[v] = run(v, s, tx)
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
				} else {
					outcomes[v] = run(v, s, conn)
				}
				conn.Close()
				outcomes[v] += "; rows " + rows(v)
			}
			if outcomes[fenced] != outcomes[bare] {
				t.Errorf("%s, in a transaction %v:\n\t%s\nbare\n\t%s", s.text, inTx, outcomes[fenced], outcomes[bare])
			}
		}
		if n := fenced.count("SELECT count(*) FROM counters WHERE fence <> '" + text(6) + "'"); n != 0 {
			t.Errorf("%d rows are without the fence", n)
		}
	}
}
