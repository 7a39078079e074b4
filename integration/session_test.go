package integration

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
)

// What a statement does to its session holds for the texts that follow: how they are read, whether they are in a
// transaction, and what the columns of a table are.

func (v *env) conn() *sql.Conn {
	v.Helper()
	c, err := v.db.Conn(v.Context())
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { c.Close() })
	return c
}

func (v *env) bareConn() *sql.Conn {
	v.Helper()
	c, err := v.bare.Conn(v.Context())
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { c.Close() })
	return c
}

func multiStatements() *engine {
	return &engine{name: "mariadb-multi", driver: "mysql", dialectTexts: mysqlTexts, create: onServer(mariadb, "multiStatements=true")}
}

// TestModeSetInPassing: a text that cannot be read, or that fails in the end, has set how the next ones are read.
func TestModeSetInPassing(t *testing.T) {
	const hidden = `INSERT INTO plain (id, v) VALUES (77, 'C:\'); UPDATE j SET n = 666 WHERE id = 2; -- ')`
	for _, e := range only([]*engine{multiStatements()}) {
		for _, text := range []string{
			"SET SESSION sql_mode='NO_BACKSLASH_ESCAPES'; SELECT nope",
			"/* start of session */ /*!40101 SET SESSION sql_mode='NO_BACKSLASH_ESCAPES' */",
			"/*!40101 SET SQL_MODE='NO_BACKSLASH_ESCAPES' */; COMMIT",
			"/*!40101 SET SQL_MODE='NO_BACKSLASH_ESCAPES' */; INSERT INTO j (id, v, fence) VALUES (50, 'x', '')", // unfenced
		} {
			t.Run(e.name, func(t *testing.T) {
				v := e.open(t)
				c, ctx := v.conn(), v.under(6)
				if _, err := c.ExecContext(ctx, "UPDATE j SET v = 'm' WHERE id = 1"); err != nil {
					t.Fatal(err)
				}
				_, err := c.ExecContext(fencedsql.Unfenced(t.Context()), text)
				v.do("DELETE FROM j WHERE id = 50", "DELETE FROM violations")
				var mode string
				if e := c.QueryRowContext(t.Context(), "SELECT @@sql_mode").Scan(&mode); e != nil || !strings.Contains(mode, "NO_BACKSLASH_ESCAPES") {
					t.Fatalf("%q: %v; the mode is %s, %v", text, err, mode, e)
				}
				if _, err := c.ExecContext(ctx, hidden); err == nil {
					t.Error("an UPDATE of j passed as a string")
				}
				v.clean()
			})
		}
	}
	for _, e := range only(postgresEngines()[:1]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			c, ctx := v.conn(), v.under(6)
			if _, err := c.ExecContext(ctx, "UPDATE j SET v = set_config('standard_conforming_strings', 'off', false) WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			before := v.show("j")
			c.ExecContext(ctx, `INSERT INTO plain (id, v) VALUES (77, '\'' ); UPDATE j SET n = 666 WHERE id = 2; --')`)
			c.ExecContext(ctx, `WITH a AS (SELECT '\'', (SELECT 1) AS b), c AS (UPDATE j SET n = 666 WHERE id = 2 RETURNING 1) SELECT 1 --'), 1) SELECT 1`)
			if after := v.show("j"); after != before {
				t.Errorf("j was %s, is %s", before, after)
			}
			v.clean()
		})
	}
}

// TestUnreadText: what a text does that only Unfenced sends is followed.
func TestUnreadText(t *testing.T) {
	for _, e := range only([]*engine{multiStatements()}) {
		t.Run("BEGIN/"+e.name, func(t *testing.T) {
			v := e.open(t)
			c, ctx := v.conn(), v.under(6)
			before := v.show("plain")
			if _, err := c.ExecContext(fencedsql.Unfenced(ctx), "START TRANSACTION; UPDATE j SET v = v WHERE /*!40000 id = 1 */"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.ExecContext(ctx, "INSERT INTO plain (id, v) VALUES (99, 'half')"); err != nil {
				t.Fatal(err)
			}
			_, err := c.ExecContext(ctx, "UPDATE j SET v = 'x' WHERE id = 2")
			v.fenced(err, "j", 6, 7)
			_, err = c.ExecContext(ctx, "COMMIT")
			v.is(err, fencedsql.ErrFenced)
			if after := v.show("plain"); after != before {
				t.Errorf("plain was %s, is %s", before, after)
			}
		})
		t.Run("ALTER/"+e.name, func(t *testing.T) {
			v := e.open(t)
			c, ctx := v.conn(), v.under(9)
			if _, err := c.ExecContext(ctx, "UPDATE j SET v = 'm' WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.ExecContext(fencedsql.Unfenced(ctx), "/*!40000 ALTER TABLE j MODIFY fence DECIMAL(60,0) NOT NULL DEFAULT 0 */"); err != nil {
				t.Fatal(err)
			}
			before := v.show("j")
			_, err := c.ExecContext(ctx, "UPDATE j SET v = 'again' WHERE id = 1")
			v.is(err, fencedsql.ErrSchema)
			if after := v.show("j"); after != before {
				t.Errorf("j was %s, is %s", before, after)
			}
		})
	}
}

// TestDefinitionsInTransactions: an INSERT without a column list puts its values into the columns that the table has now,
// whatever became of a definition in a transaction.
func TestDefinitionsInTransactions(t *testing.T) {
	const forward = "CREATE TABLE t2 (id VARCHAR(9) PRIMARY KEY, v VARCHAR(9), fence VARCHAR(40) NOT NULL)"
	const backward = "CREATE TABLE t2 (v VARCHAR(9), id VARCHAR(9) PRIMARY KEY, fence VARCHAR(40) NOT NULL)"
	for _, e := range only(append(sqliteEngines, postgresEngines()[0])) {
		open := func(t *testing.T) (v *env, ctx context.Context, insert func(first, second string) error) {
			v = e.open(t, fencedsql.WithTables(append(tables, fencedsql.Table{Name: "t2", Key: []string{"id"}})...))
			v.do(forward)
			ctx = v.under(6)
			return v, ctx, func(first, second string) error {
				_, err := v.db.ExecContext(ctx, "INSERT INTO t2 VALUES ('"+first+"', '"+second+"')")
				return err
			}
		}
		redefine := func(v *env) *sql.Tx {
			v.Helper()
			tx, err := v.db.BeginTx(v.Context(), nil)
			if err != nil {
				v.Fatal(err)
			}
			for _, text := range []string{"DROP TABLE t2", backward} {
				if _, err := tx.ExecContext(fencedsql.Unfenced(v.Context()), text); err != nil {
					v.Fatal(err)
				}
			}
			return tx
		}
		holds := func(v *env, want string) {
			v.Helper()
			if got := v.show("t2"); got != want {
				v.Errorf("t2 holds %s, want %s", got, want)
			}
		}
		t.Run("rolled back/"+e.name, func(t *testing.T) {
			v, ctx, insert := open(t)
			tx := redefine(v)
			if _, err := tx.ExecContext(ctx, "INSERT INTO t2 VALUES ('value', 'key')"); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if err := insert("key", "value"); err != nil {
				t.Fatal(err)
			}
			holds(v, "key|value|f6")
		})
		if e.dialect == "postgres" { // SQLite does not wait
			t.Run("seen before the commit/"+e.name, func(t *testing.T) {
				v, ctx, insert := open(t)
				other := v.conn()
				tx := redefine(v)
				done := make(chan error, 1)
				go func() { // it reads the columns and then waits for the table
					_, err := other.ExecContext(ctx, "INSERT INTO t2 VALUES ('a', 'b')")
					done <- err
				}()
				for waiting := 0; waiting == 0; {
					if err := v.bare.QueryRow("SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
						t.Fatal(err)
					}
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				<-done // whatever became of it: it was sent for the columns of before
				v.do("DELETE FROM t2")
				if err := insert("value", "key"); err != nil {
					t.Fatal(err)
				}
				holds(v, "value|key|f6")
			})
		}
		t.Run("before an error/"+e.name, func(t *testing.T) {
			v, _, insert := open(t)
			if err := insert("key", "value"); err != nil {
				t.Fatal(err)
			}
			if _, err := v.db.ExecContext(fencedsql.Unfenced(t.Context()), "DROP TABLE t2; "+backward+"; SELECT nope FROM t2"); err == nil {
				t.Fatal("no error")
			}
			if v.dialect == "postgres" { // the text was one transaction
				if err := insert("key2", "value"); err != nil {
					t.Fatal(err)
				}
				holds(v, "key|value|f6, key2|value|f6")
				return
			}
			if err := insert("value", "key"); err != nil {
				t.Fatal(err)
			}
			holds(v, "value|key|f6")
		})
	}
}

// TestClaimLooseKey: MySQL compares a number with a text as numbers, by which '42' and '042' are one.
func TestClaimLooseKey(t *testing.T) {
	for _, e := range only([]*engine{multiStatements()}) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t, fencedsql.WithTables(append(tables, fencedsql.Table{Name: "vk", Key: []string{"id"}})...))
			v.do("CREATE TABLE vk (id VARCHAR(20) PRIMARY KEY, v INT, fence CHAR(40) NOT NULL)",
				"INSERT INTO vk VALUES ('42', 0, '"+text(5)+"'), ('042', 0, '"+text(5)+"')")
			before := v.show("vk")
			if l, err := fencedsql.Claim(t.Context(), v.db, "vk", 42); err == nil {
				t.Errorf("claimed %v", l.Fence())
			}
			if err := fencedsql.Raise(v.under(6), v.db, "vk", 42); err == nil {
				t.Error("raised")
			}
			if after := v.show("vk"); after != before {
				t.Errorf("vk was %s, is %s", before, after)
			}
			v.do("INSERT INTO vk VALUES ('7', 0, '" + text(5) + "')")
			if _, err := fencedsql.Claim(t.Context(), v.db, "vk", 7); err != nil { // which means one row
				t.Error(err)
			}
			if _, err := fencedsql.Claim(t.Context(), v.db, "vk", "42"); err != nil {
				t.Error(err)
			}
			if _, err := v.exec(v.under(5), "UPDATE vk SET v = 1 WHERE id = ?", "042"); err != nil {
				t.Errorf("the live holder of another row: %v", err)
			}
		})
	}
}
