package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

// What is known of a connection's transaction follows what the engine did, also where a statement in it failed.

// script runs texts on one connection, each under a lease with the fence before it ("6 UPDATE …"), and reports what
// became of each: "" or the error.
func (v *env) script(c *sql.Conn, texts ...string) (errs []error) {
	v.Helper()
	for _, t := range texts {
		fence, text, _ := strings.Cut(t, " ")
		ctx := v.Context()
		switch fence {
		case "6":
			ctx = lease.New("row", lease.Fence{Count: 6}).Context(ctx)
		case "9":
			ctx = lease.New("row", lease.Fence{Count: 9}).Context(ctx)
		}
		_, err := c.ExecContext(ctx, text)
		errs = append(errs, err)
	}
	return errs
}

// TestFailedTransactionEnds: a transaction in which a statement failed takes its end, or the way back to a savepoint,
// and nothing of ours comes before that.
func TestFailedTransactionEnds(t *testing.T) {
	for _, e := range only(postgresEngines()) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			v.under(6)
			tx, err := v.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("SELECT 1/0"); err == nil {
				t.Fatal("1/0")
			}
			if _, err := tx.Exec("ROLLBACK"); err != nil {
				t.Errorf("ROLLBACK: %v", err)
			}
			_ = tx.Rollback()

			c := v.conn()
			for i, err := range v.script(c, "- BEGIN", "- SELECT count(*) FROM pg_settings", "- SAVEPOINT s", "- SELECT set_config('standard_conforming_strings', 'on', true)",
				"- INSERT INTO plain (id, v) VALUES (1, 'twice')", "- ROLLBACK TO s", "6 UPDATE j SET v = 'after' WHERE id = 1", "- COMMIT") {
				if (err != nil) != (i == 4) {
					t.Errorf("statement %d: %v", i, err)
				}
			}
			v.want("j", "1|after|10|f6, 2|b|20|f7")
			v.clean()
		})
	}
}

// TestProbeWaitsForNobody: a write that matches no row does not wait for one that another holds.
func TestProbeWaitsForNobody(t *testing.T) {
	for _, e := range only(append(slices.Clone(sqliteEngines), postgresEngines()...)) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			v.ok(v.under(6), 0, "UPDATE j SET v = 'x' WHERE id = 99") // the check of the table
			ctx, cancel := context.WithTimeout(v.under(6), time.Minute)
			defer cancel()
			tx, err := v.bare.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if e.dialect == "postgres" { // SQLite has one writer at a time
				if _, err := tx.Exec("UPDATE j SET n = n"); err != nil {
					t.Fatal(err)
				}
			}
			v.ok(ctx, 0, "UPDATE j SET v = 'x' WHERE id = 1 AND v = 'running'")
			v.ok(ctx, 0, "DELETE FROM j WHERE id = 1 AND v = 'running'")
			_, err = v.exec(ctx, "UPDATE j SET v = 'x' WHERE id = 2 AND v = 'running'")
			v.fenced(err, "j", 6, 7)
		})
	}
}

// TestUnreadableSession: where the connection's character set does not let us read a text, those that name no fenced
// table go through all the same.
func TestUnreadableSession(t *testing.T) {
	for _, e := range only(mariadbEngines()[2:3]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			v.under(6)
			errs := v.script(v.conn(), "- SET NAMES gbk", "- BEGIN", "- /* ending */ UPDATE plain SET v = 'spend' WHERE id = 1", "6 UPDATE j SET v = 'x' WHERE id = 1", "- COMMIT")
			for i, err := range errs {
				if (err != nil) != (i == 3) {
					t.Errorf("statement %d: %v", i, err)
				}
			}
			v.want("plain", "1|spend")
			v.want("j", jStart)
		})
	}
}

// TestFailedCommitEnds: PostgreSQL rolls back what it cannot commit, and the next transaction is another one.
func TestFailedCommitEnds(t *testing.T) {
	for _, e := range only(postgresEngines()) {
		t.Run(e.name, func(t *testing.T) {
			base := e.open(t)
			base.do("CREATE TABLE child (id integer REFERENCES plain DEFERRABLE INITIALLY DEFERRED)")
			for _, commit := range []string{"COMMIT", "END", "COMMIT AND CHAIN"} {
				v := base.with(t)
				v.under(6)
				errs := v.script(v.conn(), "- BEGIN", "- INSERT INTO child VALUES (404)", "- "+commit,
					"6 UPDATE j SET v = 'late' WHERE id = 2", "- BEGIN", "6 UPDATE j SET v = 'live' WHERE id = 1", "- COMMIT")
				for i, err := range errs {
					if (err != nil) != (i == 2 || i == 3) || i == 3 && !errors.Is(err, fencedsql.ErrFenced) {
						t.Errorf("%s: statement %d: %v", commit, i, err)
					}
				}
				v.want("j", "1|live|10|f6, 2|b|20|f7")
				v.clean()
			}
		})
	}
}

// TestEndedInPassing: a transaction of text that the engine has ended since is not BeginTx's.
func TestEndedInPassing(t *testing.T) {
	for _, e := range only(mariadbEngines()[2:3]) {
		t.Run(e.name, func(t *testing.T) {
			base := e.open(t)
			for _, texts := range [][]string{{"- BEGIN", "- CREATE TABLE passing (id INT)"}, {"- SAVEPOINT s"}} {
				v := base.with(t)
				v.do("DROP TABLE IF EXISTS passing")
				v.under(6)
				c := v.conn()
				for i, err := range v.script(c, append(texts, "6 UPDATE j SET v = 'late' WHERE id = 2")...) {
					if want := i == len(texts); want != errors.Is(err, fencedsql.ErrFenced) {
						t.Fatalf("statement %d: %v", i, err)
					}
				}
				tx, err := c.BeginTx(v.under(9), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Exec("UPDATE j SET v = 'live' WHERE id = 2"); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				v.want("j", "1|a|10|f5, 2|live|20|f9")
				v.clean()
			}
		})
	}
}

// TestDefinitionAfterRefusal: a definition would commit the transaction of a refused write on MySQL.
func TestDefinitionAfterRefusal(t *testing.T) {
	for _, e := range only(mariadbEngines()[2:3]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			v.under(6)
			errs := v.script(v.conn(), "- BEGIN", "- UPDATE plain SET v = 'half'", "6 UPDATE j SET v = 'late' WHERE id = 2", "- CREATE TABLE passing (id INT)")
			for i, err := range errs {
				if errors.Is(err, fencedsql.ErrFenced) != (i >= 2) {
					t.Errorf("statement %d: %v", i, err)
				}
			}
			v.want("plain", "1|p")
		})
	}
}

// TestSavepointsAfterRefusal: only the way back to before the refused write undoes it.
func TestSavepointsAfterRefusal(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		base := e.open(t)
		late := "6 UPDATE j SET v = 'late' WHERE id = 2" // by key, which aborts no transaction
		for _, c := range []struct {
			commits bool
			texts   []string
		}{
			{false, []string{"- SAVEPOINT a", late, "- RELEASE SAVEPOINT a", "- SAVEPOINT b", "- ROLLBACK TO SAVEPOINT b"}},
			{false, []string{"- SAVEPOINT a", "- SAVEPOINT b", late, "- RELEASE SAVEPOINT b", "- SAVEPOINT c", "- ROLLBACK TO SAVEPOINT c"}},
			{false, []string{late, "- SAVEPOINT a", "- ROLLBACK TO SAVEPOINT a"}},
			{true, []string{"- SAVEPOINT a", "- SAVEPOINT b", late, "- RELEASE SAVEPOINT b", "- ROLLBACK TO SAVEPOINT a"}},
			{true, []string{"- SAVEPOINT a", late, "- ROLLBACK TO SAVEPOINT a", "- RELEASE SAVEPOINT a"}},
		} {
			v := base.with(t)
			v.under(6)
			conn := v.conn()
			texts := append(append([]string{"- BEGIN", "- UPDATE plain SET v = 'half'"}, c.texts...), "- COMMIT")
			errs := v.script(conn, texts...)
			for i, err := range errs {
				want := texts[i] == late || i == len(errs)-1 && !c.commits
				if errors.Is(err, fencedsql.ErrFenced) != want || err != nil && !want {
					t.Errorf("%q: statement %d: %v", c.texts, i, err)
				}
			}
			v.want("plain", map[bool]string{true: "1|half", false: "1|p"}[c.commits])
			v.want("j", jStart)
			conn.Close()
		}
	})
}

// TestModeUndone: what set how texts are read is undone with its transaction.
func TestModeUndone(t *testing.T) {
	for _, e := range only(postgresEngines()) {
		if strings.HasPrefix(e.name, "pgbouncer") {
			continue // it gives the session to others
		}
		t.Run(e.name, func(t *testing.T) {
			base := e.open(t)
			// Where a backslash is a letter again, this writes j.
			hidden := `6 WITH a AS (SELECT '\' AS x), u AS (UPDATE j SET n = 666 RETURNING 1) SELECT ') SELECT 1 --'`
			for _, end := range []string{"- ROLLBACK", "- ROLLBACK TO s"} {
				v := base.with(t)
				v.under(6)
				c := v.conn()
				errs := v.script(c, "- BEGIN", "- SAVEPOINT s", "- SET LOCAL standard_conforming_strings = off", "6 UPDATE j SET v = 'm' WHERE id = 1", end, hidden, "- COMMIT")
				v.fenced(errs[5], "j", 6, 7)
				v.want("j", jStart)
				c.Close()
			}
		})
	}
}

// TestUnfencedTransaction: the context of BeginTx speaks for the statements of the transaction, with no table
// registered as well.
func TestUnfencedTransaction(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		v := e.open(t)
		for _, opts := range [][]fencedsql.Option{{fencedsql.WithTables(tables...)}, {fencedsql.WithTables()}} {
			v := v.with(t).again(opts...)
			v.under(6)
			tx, err := v.db.BeginTx(fencedsql.Unfenced(context.Background()), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("UPDATE plain SET v = 'unfenced'"); err != nil {
				t.Error(err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
			v.want("plain", "1|unfenced")
		}
	})
}

// TestDeleteReturningRows: on MariaDB such a DELETE is one of two statements in a transaction of ours. Its rows have the
// columns that they have bare, and one that fails undoes both.
func TestDeleteReturningRows(t *testing.T) {
	for _, e := range only(mariadbEngines()) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			columns := func(db *sql.DB, ctx context.Context, text string, args ...any) (out string) {
				rows, err := db.QueryContext(ctx, text, args...)
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				types, err := rows.ColumnTypes()
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range types {
					nullable, known := c.Nullable()
					out += fmt.Sprintln(c.Name(), c.DatabaseTypeName(), c.ScanType(), nullable, known)
				}
				for rows.Next() {
				}
				if err := rows.Err(); err != nil {
					t.Error(err)
				}
				return out
			}
			text := "DELETE FROM j WHERE n = ? RETURNING id, v, n"
			if got, want := columns(v.db, v.under(6), text, 10), columns(v.bare, t.Context(), text, 404); got != want {
				t.Errorf("the columns are\n%s\nbare\n%s", got, want)
			}
			v.want("j", "2|b|20|f7")

			v.reset()
			rows, err := v.db.QueryContext(v.under(9), "DELETE FROM j WHERE n > ? ORDER BY id RETURNING id, IF(id = 2, (SELECT 1 UNION SELECT 2), 0)", 0)
			if err == nil {
				for rows.Next() {
				}
				err = errors.Join(rows.Err(), rows.Close())
			}
			if err == nil || errors.Is(err, fencedsql.ErrFenced) {
				t.Errorf("a row that cannot be returned: %v", err)
			}
			v.want("j", jStart)
			v.ok(v.under(9), 2, "DELETE FROM j WHERE n > ?", 0)
		})
	}
}

// TestReadOnlyAsksNothing: a transaction that cannot write is not preceded by the check of the tables.
func TestReadOnlyAsksNothing(t *testing.T) {
	for _, e := range only(postgresEngines()[3:4]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			inner, err := connectorOf(v.bare.Driver(), v.dsn)
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			c, err := fencedsql.NewConnector(counting{inner, &calls}, fencedsql.WithDialect(e.dialect), fencedsql.WithTables(tables...))
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(c)
			defer db.Close()
			for _, want := range []bool{true, false} {
				calls = nil
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: want})
				if err != nil {
					t.Fatal(err)
				}
				if none := !slices.Contains(calls, "query"); none != want {
					t.Errorf("ReadOnly %v: %q", want, calls)
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
