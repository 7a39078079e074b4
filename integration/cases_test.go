package integration

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/witness"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/jackc/pgx/v5"
)

// publicCase is a way in which such drivers were reported to go wrong in
// public. Row 1 of j has fence 5, row 2 has fence 7, the lease has fence 6.
type publicCase struct {
	name string
	run  func(v *env)
}

var publicCases = []publicCase{
	{"01 the same row twice under one lease", func(v *env) { // mybatis-plus#710
		ctx := v.under(6)
		v.ok(ctx, 1, "UPDATE j SET v = ? WHERE id = 1", "x")
		v.ok(ctx, 1, "UPDATE j SET v = ? WHERE id = 1", "y")
		v.want("j", "1|y|10|f6, 2|b|20|f7")
	}},
	{"02 stale, then gone", func(v *env) { // Hibernate StaleObjectState, vix#504
		ctx := v.under(6)
		_, err := v.exec(ctx, "UPDATE j SET v = ? WHERE id = ?", "x", 2)
		v.fenced(err, "j", 6, 7)
		v.ok(ctx, 0, "UPDATE j SET v = ? WHERE id = ?", "x", 99)
		v.want("j", jStart)
	}},
	{"03 one of two rows is newer", func(v *env) { // mybatis-plus#4803, ent#1735
		_, err := v.exec(v.under(6), "UPDATE j SET v = 'x' WHERE id IN (1, 2)")
		v.fenced(err, "j", 6, 7)
		v.want("j", jStart)
	}},
	{"07 three tuples, live, stale and new", func(v *env) { // shardingsphere#5465, #8375
		text := upsert("(?, ?), (?, ?), (?, ?)")
		q, ok := text[v.dialect]
		if !ok {
			q = text[""]
		}
		_, err := v.exec(v.under(6), q, 1, "x", 2, "y", 3, "z")
		v.fenced(err, "j", 6, 7)
		v.want("j", jStart)
		if _, err := v.exec(v.under(8), q, 1, "x", 2, "y", 3, "z"); err != nil {
			v.Error(err)
		}
		v.want("j", "1|x|10|f8, 2|y|20|f8, 3|z|0|f8")
	}},
	{"10 the other table has a fence column too", func(v *env) { // jimmer#667
		text, ok := map[string]string{
			"sqlite":   "UPDATE j AS t SET v = src.v FROM src WHERE src.id = t.id AND t.id = ?",
			"postgres": "UPDATE j AS t SET v = src.v FROM src WHERE src.id = t.id AND t.id = ?",
			"mysql":    "UPDATE j AS t JOIN src ON src.id = t.id SET t.v = src.v WHERE t.id = ?",
		}[v.dialect]
		if !ok {
			v.Fatalf("no text for %s", v.dialect)
		}
		v.ok(v.under(6), 1, text, 1)
		v.want("j", "1|s1|10|f6, 2|b|20|f7")
		_, err := v.exec(v.under(6), text, 2)
		v.fenced(err, "j", 6, 7)
		v.want("j", "1|s1|10|f6, 2|b|20|f7")
	}},
	{"11 an upsert compares the stored row", func(v *env) { // river#197
		text := upsert("(?, ?)")
		q, ok := text[v.dialect]
		if !ok {
			q = text[""]
		}
		// What is proposed has fence 6, which is below the bound; the stored row has 7.
		_, err := v.exec(v.under(6), q, 2, "x")
		v.fenced(err, "j", 6, 7)
		v.want("j", jStart)
	}},
	{"12 what cannot be fenced is not sent", func(v *env) { // JSqlParser#1612
		for _, text := range map[string][]string{
			"sqlite":   {"INSERT OR REPLACE INTO j (id) VALUES (1)", "REPLACE INTO j (id) VALUES (1)"},
			"postgres": {"MERGE INTO j USING src ON src.id = j.id WHEN MATCHED THEN DELETE", "COPY j FROM STDIN", "DELETE FROM j WHERE CURRENT OF c"},
			"mysql":    {"REPLACE INTO j (id) VALUES (1)", "LOAD DATA LOCAL INFILE 'x' INTO TABLE j"},
		}[v.dialect] {
			_, err := v.exec(v.under(9), text)
			v.is(err, fencedsql.ErrUnfenceable)
		}
		v.want("j", jStart)
	}},
	{"13 a CTE that writes, or stands before a write", func(v *env) { // jOOQ#10487
		for _, text := range map[string][]string{
			"sqlite":   {"WITH c AS (SELECT 2 AS id) UPDATE j SET v = 'x' WHERE id IN (SELECT id FROM c)", "WITH c AS (SELECT 2 AS id) DELETE FROM j WHERE id IN (SELECT id FROM c)"},
			"postgres": {"WITH c AS (UPDATE j SET v = 'x' WHERE id = 2 RETURNING id) SELECT * FROM c", "WITH c AS (DELETE FROM j) SELECT 1"},
		}[v.dialect] {
			_, err := v.exec(v.under(6), text)
			v.fenced(err, "j", 6, 7)
		}
		v.want("j", jStart)
	}},
	{"14 delete stale, delete live", func(v *env) {
		ctx := v.under(6)
		_, err := v.exec(ctx, "DELETE FROM j WHERE id = 2")
		v.fenced(err, "j", 6, 7)
		v.ok(ctx, 1, "DELETE FROM j WHERE id = 1")
		v.want("j", "2|b|20|f7")
	}},
	{"15 update through Query", func(v *env) { // gocraft/dbr#182
		ctx := v.under(6)
		rs, err := v.db.QueryContext(ctx, v.mark("UPDATE j SET v = ? WHERE id = ?"), "x", 1)
		if err != nil {
			v.Fatal(err)
		}
		if cols, err := rs.Columns(); len(cols) != 0 || err != nil {
			v.Errorf("columns %v, %v", cols, err)
		}
		if n, err := drain(rs, nil); n != 0 || err != nil {
			v.Errorf("%d rows, %v", n, err)
		}
		_, err = drain(v.db.QueryContext(ctx, v.mark("UPDATE j SET v = ? WHERE id = ?"), "x", 2))
		v.fenced(err, "j", 6, 7)
		v.want("j", "1|x|10|f6, 2|b|20|f7")
	}},
	{"16 several statements in one Exec", func(v *env) { // go-sqlite3#584, mysql#1330
		ctx := v.under(6)
		for _, text := range []string{
			"UPDATE plain SET v = 'x'; UPDATE j SET v = 'x' WHERE id = 1",
			"UPDATE j SET v = 'x' WHERE id = 1; SELECT 1",
			"SELECT 1; SELECT 2; DELETE FROM j",
			";UPDATE j SET v = 'x' WHERE id = 2;;UPDATE j SET v = 'y' WHERE id = 2",
		} {
			_, err := v.exec(ctx, text)
			v.is(err, fencedsql.ErrUnfenceable)
			_, err = drain(v.db.QueryContext(ctx, text))
			v.is(err, fencedsql.ErrUnfenceable)
		}
		v.want("j", jStart)
		v.want("plain", "1|p")
	}},
	{"17 prepared", func(v *env) { // golang/go#22630
		st, err := v.db.Prepare(v.mark("UPDATE j SET v = ? WHERE id = ?"))
		if err != nil {
			v.Fatal(err)
		}
		defer st.Close()
		if _, err := st.ExecContext(v.under(6), "x", 1); err != nil {
			v.Error(err)
		}
		v.want("j", "1|x|10|f6, 2|b|20|f7")
		_, err = st.ExecContext(v.under(6), "x", 1, 2)
		if err == nil || !strings.Contains(err.Error(), "expected 2 arguments, got 3") && !strings.Contains(err.Error(), "takes 2 arguments, got 3") {
			v.Errorf("three arguments: %v", err)
		}
		_, err = st.ExecContext(v.under(6), "x", 2)
		v.fenced(err, "j", 6, 7)
		if _, err := st.ExecContext(v.under(8), "y", 2); err != nil {
			v.Error(err)
		}
		_, err = st.ExecContext(v.under(0), "z", 2)
		v.is(err, fencedsql.ErrNoLease)
		v.under(8)
		v.want("j", "1|x|10|f6, 2|y|20|f8")
		if _, err := st.ExecContext(fencedsql.Unfenced(context.Background()), "u", 1); err != nil {
			v.Error(err)
		}
		v.do("DELETE FROM violations")
		v.want("j", "1|u|10|f6, 2|y|20|f8")
	}},
	{"20 ErrFenced in a transaction, and savepoints", func(v *env) { // gorm#4854
		ctx := v.under(6)
		tx, err := v.db.BeginTx(ctx, nil)
		if err != nil {
			v.Fatal(err)
		}
		step := func(text string) {
			v.Helper()
			if _, err := tx.Exec(text); err != nil {
				v.Errorf("%s: %v", text, err)
			}
		}
		step("UPDATE j SET v = 'kept' WHERE id = 1")
		step("SAVEPOINT a")
		step("UPDATE j SET v = 'undone' WHERE id = 1")
		_, err = tx.Exec("UPDATE j SET v = 'x' WHERE n = 20")
		v.fenced(err, "j", 6, 7)
		step("ROLLBACK TO SAVEPOINT a")
		step("RELEASE SAVEPOINT a")
		step("UPDATE j SET n = 11 WHERE id = 1")
		if err := tx.Commit(); err != nil {
			v.Errorf("Commit after ROLLBACK TO: %v", err)
		}
		v.want("j", "1|kept|11|f6, 2|b|20|f7")
	}},
	{"20b Commit after ErrFenced rolls back", func(v *env) {
		ctx := v.under(6)
		tx, err := v.db.BeginTx(ctx, nil)
		if err != nil {
			v.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE j SET v = 'x' WHERE id = 1"); err != nil {
			v.Error(err)
		}
		_, err = tx.Exec("UPDATE j SET v = 'x' WHERE id = 2")
		v.fenced(err, "j", 6, 7)
		v.fenced(tx.Commit(), "j", 6, 7)
		v.want("j", jStart)
		// The connection is fit for the next.
		v.ok(ctx, 1, "UPDATE j SET v = 'x' WHERE id = 1")
	}},
	{"20c the savepoint was set after the refusal, or released", func(v *env) {
		ctx := v.under(6)
		for _, texts := range [][]string{
			{"!UPDATE j SET v = 'x' WHERE id = 2", "?SAVEPOINT a", "?ROLLBACK TO SAVEPOINT a"},
			{"SAVEPOINT a", "SAVEPOINT b", "RELEASE SAVEPOINT b", "!UPDATE j SET v = 'x' WHERE id = 2"},
			{"SAVEPOINT a", "!UPDATE j SET v = 'x' WHERE id = 2", "?RELEASE SAVEPOINT a"},
		} {
			tx, err := v.db.BeginTx(ctx, nil)
			if err != nil {
				v.Fatal(err)
			}
			for _, text := range texts {
				// "!" is refused; "?" fails where an error ends the transaction.
				_, err := tx.Exec(strings.TrimLeft(text, "!?"))
				if text[0] == '!' {
					v.fenced(err, "j", 6, 7)
				} else if err != nil && text[0] != '?' {
					v.Errorf("%s: %v", text, err)
				}
			}
			v.fenced(tx.Commit(), "j", 6, 7)
			v.want("j", jStart)
		}
	}},
	{"20d nested savepoints", func(v *env) {
		tx, err := v.db.BeginTx(v.under(6), nil)
		if err != nil {
			v.Fatal(err)
		}
		for _, text := range []string{
			"SAVEPOINT a", "UPDATE j SET n = 11 WHERE id = 1", "SAVEPOINT b", "SAVEPOINT c",
			"!UPDATE j SET v = 'x' WHERE n = 20", "ROLLBACK TO SAVEPOINT b", "RELEASE SAVEPOINT b",
			"UPDATE j SET v = 'k' WHERE id = 1", "RELEASE SAVEPOINT a",
		} {
			_, err := tx.Exec(strings.TrimLeft(text, "!"))
			if text[0] == '!' {
				v.fenced(err, "j", 6, 7)
			} else if err != nil {
				v.Errorf("%s: %v", text, err)
			}
		}
		if err := tx.Commit(); err != nil {
			v.Error(err)
		}
		v.want("j", "1|k|11|f6, 2|b|20|f7")
	}},
	{"20e a transaction of statements", func(v *env) {
		ctx := v.under(6)
		c, err := v.db.Conn(ctx)
		if err != nil {
			v.Fatal(err)
		}
		defer c.Close()
		for _, text := range []string{"BEGIN", "UPDATE j SET v = 'x' WHERE id = 1", "!UPDATE j SET v = 'x' WHERE n = 20", "!COMMIT"} {
			_, err := c.ExecContext(ctx, strings.TrimLeft(text, "!"))
			if text[0] == '!' {
				v.fenced(err, "j", 6, 7)
			} else if err != nil {
				v.Errorf("%s: %v", text, err)
			}
		}
		v.want("j", jStart)
		for _, text := range []string{"BEGIN", "UPDATE j SET v = 'x' WHERE id = 1", "COMMIT"} {
			if _, err := c.ExecContext(ctx, text); err != nil {
				v.Errorf("%s: %v", text, err)
			}
		}
		v.want("j", "1|x|10|f6, 2|b|20|f7")
	}},
	{"23 values of the driver go through", func(v *env) { // ocsql#44, dd-trace-go#568
		for _, arg := range []any{"x", []byte("x"), valuer("x"), ptr("x"), sql.NullString{String: "x", Valid: true}, nil, time.Unix(1, 0).UTC(), true} {
			v.reset()
			_, wantErr := v.bare.Exec(v.mark("UPDATE j SET v = ? WHERE id = ?"), arg, 1)
			want := strings.Replace(v.show("j"), "f5", "f6", 1)
			v.reset()
			_, err := v.exec(v.under(6), "UPDATE j SET v = ? WHERE id = ?", arg, 1)
			if (err == nil) != (wantErr == nil) {
				v.Errorf("%T: got %v, the bare driver says %v", arg, err, wantErr)
			} else if err == nil {
				v.want("j", want)
			}
		}
		ctx := v.under(6)
		// What the bare driver refuses, is refused with the same words.
		for _, arg := range []any{uint64(1) << 63, sql.Out{Dest: ptr("x")}, struct{}{}} {
			_, want := v.bare.Exec(v.mark("UPDATE j SET n = ? WHERE id = 99"), arg)
			_, got := v.exec(ctx, "UPDATE j SET n = ? WHERE id = 99", arg)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				v.Errorf("%T: got %v, the bare driver says %v", arg, got, want)
			}
		}
	}},
	{"24 Raw, Close, BeginTx options", func(v *env) { // otelsql#98, #199, ocsql#14
		var bareType string
		if err := raw(v.bare, func(c any) { bareType = fmt.Sprintf("%T", c) }); err != nil {
			v.Fatal(err)
		}
		if err := raw(v.db, func(c any) {
			u, ok := c.(interface{ Unwrap() driver.Conn })
			if !ok {
				v.Errorf("%T has no Unwrap", c)
				return
			}
			if got := fmt.Sprintf("%T", u.Unwrap()); got != bareType {
				v.Errorf("Unwrap gives %s, the bare driver has %s", got, bareType)
			}
		}); err != nil {
			v.Fatal(err)
		}
		opts := &sql.TxOptions{Isolation: sql.LevelLinearizable, ReadOnly: true}
		tx, want := v.bare.BeginTx(context.Background(), opts)
		if want == nil {
			tx.Rollback()
		}
		tx, got := v.db.BeginTx(context.Background(), opts)
		if got == nil {
			tx.Rollback()
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			v.Errorf("BeginTx: got %v, the bare driver says %v", got, want)
		}
	}},
	{"26 a holder paused past its lease", func(v *env) { // etcd#22082, cozy-stack#4911
		v.under(6)
		paused := lease.New("k", lease.Fence{Count: 6})
		ctx := paused.Context(context.Background())
		next, err := fencedsql.Claim(context.Background(), v.db, "j", 2)
		if err != nil {
			v.Fatal(err)
		}
		if next.Fence() != (lease.Fence{Count: 8}) {
			v.Errorf("claimed with %v, want 8", next.Fence())
		}
		v.do("DELETE FROM violations")
		_, err = v.exec(ctx, "UPDATE j SET v = 'late' WHERE id = 2")
		v.fenced(err, "j", 6, 8)
		paused.Lose(errors.New("ran out"))
		if !errors.Is(context.Cause(ctx), lease.ErrLost) {
			v.Errorf("the cause is %v", context.Cause(ctx))
		}
		if next.Err() != nil {
			v.Errorf("the next holder's lease: %v", next.Err())
		}
		v.want("j", "1|a|10|f5, 2|b|20|f8")
	}},
	{"live writes from many goroutines", func(v *env) {
		ctx := v.under(8)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 20 {
					if _, err := v.db.ExecContext(ctx, v.mark("UPDATE j SET n = n + 1 WHERE id = ?"), 1+i%2); err != nil {
						v.Errorf("a live write is refused: %v", err)
					}
				}
			}()
		}
		wg.Wait()
		v.want("j", "1|a|90|f8, 2|b|100|f8")
	}},
	{"equal values are no refusal", func(v *env) {
		ctx := v.under(6)
		for range 2 {
			if _, err := v.exec(ctx, "UPDATE j SET v = 'a' WHERE id = 1"); err != nil {
				v.Error(err)
			}
			if _, err := v.exec(ctx, "UPDATE j SET v = 'a' WHERE n = 10"); err != nil {
				v.Error(err)
			}
		}
		v.want("j", "1|a|10|f6, 2|b|20|f7")
	}},
	{"once is once", func(v *env) {
		ctx := v.under(6)
		v.ok(ctx, 1, "UPDATE onlyonce SET v = 'x' WHERE id = 1")
		_, err := v.exec(ctx, "UPDATE onlyonce SET v = 'y' WHERE id = 1")
		v.fenced(err, "onlyonce", 6, 6)
		_, err = v.exec(ctx, "UPDATE onlyonce SET v = 'y' WHERE v = 'x'")
		v.fenced(err, "onlyonce", 6, 6)
		_, err = v.exec(ctx, "DELETE FROM onlyonce WHERE id = 1")
		v.fenced(err, "onlyonce", 6, 6)
		v.want("onlyonce", "1|x|f6, 2|b|f7")
	}},
	{"no lease, a semaphore's, nil, and Unfenced", func(v *env) {
		v.under(0)
		for name, ctx := range map[string]context.Context{
			"none":               context.Background(),
			"nil":                (*lease.Lease)(nil).Context(context.Background()),
			"semaphore":          lease.New("s", lease.Fence{}).Context(context.Background()),
			"Unfenced before it": lease.New("s", lease.Fence{}).Context(fencedsql.Unfenced(context.Background())),
		} {
			_, err := v.exec(ctx, "UPDATE j SET v = 'x' WHERE id = 1")
			if !errors.Is(err, fencedsql.ErrNoLease) {
				v.Errorf("%s: got %v", name, err)
			}
		}
		v.want("j", jStart)
		under := lease.New("k", lease.Fence{Count: 6}).Context(context.Background())
		if _, err := v.exec(fencedsql.Unfenced(under), "UPDATE j SET v = 'x' WHERE id = 2"); err != nil {
			v.Error(err)
		}
		v.do("DELETE FROM violations")
		v.want("j", "1|a|10|f5, 2|x|20|f7")
	}},
	{"Unfenced given to BeginTx", func(v *env) {
		v.under(0)
		tx, err := v.db.BeginTx(fencedsql.Unfenced(context.Background()), nil)
		if err != nil {
			v.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE j SET v = 'x' WHERE id = 2"); err != nil {
			v.Error(err)
		}
		_, err = tx.ExecContext(lease.New("k", lease.Fence{Count: 6}).Context(context.Background()), "UPDATE j SET v = 'y' WHERE n = 20")
		v.fenced(err, "j", 6, 7)
		v.fenced(tx.Commit(), "j", 6, 7)
		v.want("j", jStart)
	}},
	{"Unfenced, and then the same lease again", func(v *env) {
		v.under(6)
		l := lease.New("k", lease.Fence{Count: 6})
		ctx := l.Context(fencedsql.Unfenced(l.Context(context.Background())))
		_, err := v.exec(ctx, "UPDATE j SET v = 'x' WHERE id = 2")
		v.fenced(err, "j", 6, 7)
		v.want("j", jStart)
	}},
	{"two refusals, of which one is undone", func(v *env) {
		tx, err := v.db.BeginTx(v.under(6), nil)
		if err != nil {
			v.Fatal(err)
		}
		for _, text := range []string{
			"!UPDATE j SET v = 'x' WHERE id = 2", "UPDATE plain SET v = 'half' WHERE id = 1",
			"SAVEPOINT a", "!UPDATE j SET v = 'x' WHERE id = 2", "ROLLBACK TO SAVEPOINT a",
		} {
			_, err := tx.Exec(strings.TrimLeft(text, "!"))
			if text[0] == '!' {
				v.fenced(err, "j", 6, 7)
			} else if err != nil {
				v.Errorf("%s: %v", text, err)
			}
		}
		v.fenced(tx.Commit(), "j", 6, 7)
		v.want("j", jStart)
		v.want("plain", "1|p")
	}},
	{"a condition that holds for other rows each time", func(v *env) {
		text := map[string]string{
			"sqlite":   "DELETE FROM nokey WHERE random() < 0",
			"postgres": "DELETE FROM nokey WHERE random() < 0.5",
			"mysql":    "DELETE FROM nokey WHERE rand() < 0.5",
		}[v.dialect]
		for range 30 {
			v.reset()
			if _, err := v.exec(v.under(6), text); err != nil {
				v.fenced(err, "nokey", 6, 7)
			}
			if got := v.show("nokey"); !strings.HasSuffix(got, "2|b|f7") {
				v.Fatalf("the newer row is gone: %s", got)
			}
		}
	}},
	{"a stored fence that is none", func(v *env) {
		for _, stored := range []string{"7", "zzz"} {
			v.do("UPDATE j SET fence = '"+stored+"' WHERE id = 2", "DELETE FROM violations")
			ctx := v.under(9)
			for _, text := range []string{"UPDATE j SET v = 'x' WHERE id = 2", "UPDATE j SET v = 'x' WHERE n = 20", "DELETE FROM j WHERE id = 2"} {
				tx, err := v.db.BeginTx(ctx, nil)
				if err != nil {
					v.Fatal(err)
				}
				_, err = tx.Exec(text)
				if e := tx.Commit(); e == nil || !errors.Is(err, errors.Unwrap(e)) {
					v.Errorf("%s: %v, and Commit: %v", text, err, e)
				}
				// MySQL's error does not tell what is stored.
				if !errors.Is(err, fencedsql.ErrSchema) && (v.dialect != "mysql" || !errors.Is(err, fencedsql.ErrFenced)) {
					v.Errorf("%s: %v", text, err)
				}
			}
			if _, err := fencedsql.Claim(ctx, v.db, "j", 2); !errors.Is(err, fencedsql.ErrSchema) {
				v.Errorf("Claim: %v", err)
			}
			v.want("j", "1|a|10|f5, 2|b|20|"+stored)
		}
	}},
	{"an encoding that the fence does not fit", func(v *env) {
		v.under(0)
		ctx := lease.New("k", lease.Fence{Epoch: 1}).Context(context.Background())
		_, err := v.exec(ctx, "UPDATE counted SET v = 'secret' WHERE id = 1")
		if err == nil || !strings.Contains(err.Error(), "counted") || !strings.Contains(err.Error(), "18446744073709551616") {
			v.Errorf("got %v", err)
		}
		v.want("counted", "1|a|5, 2|b|7")
	}},
	{"numbers of arguments", func(v *env) {
		ctx := v.under(6)
		for _, args := range [][]any{{}, {"secret"}, {"secret", 1, 2}, {"secret", 1, 2, 3}} {
			_, err := v.exec(ctx, "UPDATE j SET v = ? WHERE id = ?", args...)
			if err == nil || strings.Contains(err.Error(), "secret") {
				v.Errorf("%d arguments: %v", len(args), err)
			}
			_, err = v.exec(ctx, "UPDATE j SET v = ? WHERE n = ?", args...)
			if err == nil || strings.Contains(err.Error(), "secret") {
				v.Errorf("%d arguments: %v", len(args), err)
			}
		}
		v.want("j", jStart)
	}},
	{"Claim and Raise", func(v *env) {
		ctx := context.Background()
		for _, table := range []string{"j", "counted"} {
			v.under(6)
			a, err := fencedsql.Claim(ctx, v.db, table, 1)
			if err != nil {
				v.Fatal(err)
			}
			b, err := fencedsql.Claim(ctx, v.db, table, 1)
			if err != nil {
				v.Fatal(err)
			}
			if a.Fence() != (lease.Fence{Count: 6}) || b.Fence() != (lease.Fence{Count: 7}) {
				v.Errorf("claimed %v and %v, want 6 and 7", a.Fence(), b.Fence())
			}
			v.do("DELETE FROM violations")
			_, err = v.exec(a.Context(ctx), "UPDATE "+table+" SET v = 'late' WHERE id = 1")
			v.fenced(err, table, 6, 7)
			v.fenced(fencedsql.Raise(a.Context(ctx), v.db, table, 1), table, 6, 7)
			v.under(7)
			v.ok(b.Context(ctx), 1, "UPDATE "+table+" SET v = 'x' WHERE id = 1")
			// Another row, and twice: the second changes nothing.
			for range 2 {
				if err := fencedsql.Raise(v.under(9), v.db, table, 2); err != nil {
					v.Error(err)
				}
			}
			_, err = v.exec(b.Context(ctx), "UPDATE "+table+" SET v = 'late' WHERE id = 2")
			v.fenced(err, table, 7, 9)
			v.clean()
			v.is(fencedsql.Raise(v.under(9), v.db, table, 99), sql.ErrNoRows)
			_, err = fencedsql.Claim(ctx, v.db, table, 99)
			v.is(err, sql.ErrNoRows)
		}
		v.want("j", "1|x|10|f7, 2|b|20|f9")
		v.want("counted", "1|x|7, 2|b|9")
		v.is(fencedsql.Raise(ctx, v.db, "j", 1), fencedsql.ErrNoLease)
		for _, err := range []error{
			fencedsql.Raise(v.under(9), v.db, "nosuch", 1),
			fencedsql.Raise(v.under(9), v.db, "nokey", 1),
			fencedsql.Raise(v.under(9), v.db, "j"),
			fencedsql.Raise(v.under(9), v.db, "j", 1, 2),
			fencedsql.Raise(v.under(9), v.db, "pair", 1),
			fencedsql.Raise(v.under(9), v.db, "onlyonce", 1),
			fencedsql.Raise(v.under(9), v.bare, "j", 1),
		} {
			if err == nil || errors.Is(err, fencedsql.ErrFenced) {
				v.Errorf("got %v", err)
			}
		}
		if l, err := fencedsql.Claim(ctx, v.db, "pair", 1, 2); err != nil || l.Fence() != (lease.Fence{Count: 8}) {
			v.Errorf("pair: %v, %v", l.Fence(), err)
		}
	}},
	{"Claim in a transaction", func(v *env) {
		v.under(8)
		tx, err := v.db.Begin()
		if err != nil {
			v.Fatal(err)
		}
		l, err := fencedsql.Claim(context.Background(), tx, "j", 2)
		if err != nil {
			v.Fatal(err)
		}
		if _, err := tx.ExecContext(l.Context(context.Background()), v.mark("UPDATE j SET v = ? WHERE id = ?"), "claimed", 2); err != nil {
			v.Error(err)
		}
		if err := tx.Rollback(); err != nil {
			v.Error(err)
		}
		v.want("j", jStart)
	}},
	{"Claims race", func(v *env) {
		v.under(0)
		const rounds, workers = 10, 4
		var mu sync.Mutex
		seen := map[lease.Fence]bool{}
		var wg sync.WaitGroup
		for range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range rounds {
					l, err := fencedsql.Claim(context.Background(), v.db, "j", 1)
					if err != nil {
						v.Error(err)
						return
					}
					mu.Lock()
					if seen[l.Fence()] {
						v.Errorf("fence %v was given twice", l.Fence())
					}
					seen[l.Fence()] = true
					mu.Unlock()
				}
			}()
		}
		wg.Wait()
		v.do("DELETE FROM violations")
		v.want("j", fmt.Sprintf("1|a|10|f%d, 2|b|20|f7", 5+rounds*workers))
	}},
}

func TestCases(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		base := e.open(t)
		for _, c := range publicCases {
			t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
				v := base.with(gapped(t, e, c.name))
				c.run(v)
			})
		}
	})
}

type valuer string

func (s valuer) Value() (driver.Value, error) { return string(s), nil }

func ptr[T any](v T) *T { return &v }

func raw(db *sql.DB, f func(any)) error {
	c, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Raw(func(dc any) error { f(dc); return nil })
}

// The cases below need statements of one dialect, or a database of their own.

func returning(t *testing.T, run func(v *env)) {
	each(t, func(t *testing.T, e *engine) {
		if e.returning {
			run(e.open(t))
		}
	})
}

func TestCase09Returning(t *testing.T) { // ent#1821, bun#556
	returning(t, func(v *env) {
		up := v.mark("INSERT INTO j (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING v")
		nothing := v.mark("INSERT INTO j (id, v) VALUES (?, ?) ON CONFLICT (id) DO NOTHING RETURNING v")
		ctx := v.under(6)
		var s string
		v.fenced(v.db.QueryRowContext(ctx, up, 2, "x").Scan(&s), "j", 6, 7)
		v.is(v.db.QueryRowContext(ctx, nothing, 2, "x").Scan(&s), sql.ErrNoRows)
		v.want("j", jStart)
		if err := v.db.QueryRowContext(ctx, up, 1, "x").Scan(&s); err != nil || s != "x" {
			v.Errorf("got %q, %v", s, err)
		}
		v.want("j", "1|x|10|f6, 2|b|20|f7")
	})
}

// Rows keep their shape: names, values and column types are those that the
// bare driver gives.
func TestReturningKeepsItsShape(t *testing.T) {
	returning(t, func(v *env) {
		for _, text := range []string{
			"UPDATE j SET v = 'x' WHERE id = 1 RETURNING *",
			"UPDATE j SET v = 'x' WHERE n < 15 RETURNING id, v AS w, n + 1",
			"DELETE FROM j WHERE id = 1 RETURNING *",
			"DELETE FROM j WHERE n < 15 RETURNING id, upper(v) AS u",
			"INSERT INTO j (id, v) VALUES (3, 'c'), (4, 'd') RETURNING id, v",
			"INSERT INTO j (id, v) VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, v",
			"DELETE FROM j WHERE id = 99 RETURNING v",
		} {
			v.reset()
			shape := func(db *sql.DB, ctx context.Context) (string, string) {
				v.Helper()
				rs, err := db.QueryContext(ctx, text)
				if err != nil {
					v.Fatalf("%s: %v", text, err)
				}
				types, err := rs.ColumnTypes()
				if err != nil {
					v.Fatal(err)
				}
				head := ""
				for _, c := range types {
					null, ok := c.Nullable()
					head += fmt.Sprintf("%s %s %v %v %v, ", c.Name(), c.DatabaseTypeName(), c.ScanType(), null, ok)
				}
				return head, witness.Render(v, rs)
			}
			wantHead, want := shape(v.bare, context.Background())
			v.reset()
			gotHead, got := shape(v.db, v.under(6))
			v.clean()
			if gotHead != wantHead {
				v.Errorf("%s\ngives columns %s\nwant %s", text, gotHead, wantHead)
			}
			// The fence itself is what may differ.
			if strings.ReplaceAll(got, "f6", "f5") != strings.ReplaceAll(want, "f6", "f5") {
				v.Errorf("%s\ngives %s\nwant %s", text, got, want)
			}
		}
		for _, text := range []string{
			"UPDATE j SET v = 'x' WHERE id = 2 RETURNING id",
			"UPDATE j SET v = 'x' RETURNING id",
			"DELETE FROM j WHERE id = 2 RETURNING *",
			"DELETE FROM j RETURNING id",
		} {
			v.reset()
			ctx := v.under(6)
			_, err := drain(v.db.QueryContext(ctx, text))
			v.fenced(err, "j", 6, 7)
			_, err = v.db.ExecContext(ctx, text)
			v.fenced(err, "j", 6, 7)
			v.want("j", jStart)
		}
	})
}

// With either clientFoundRows, and arguments added once with interpolateParams off.
func TestCases05And06And08And19MariaDB(t *testing.T) { // mysql#641, gorm#7384, mysqljs#2194, sqlhooks#58
	for _, e := range only(mariadbEngines()) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			ctx := v.under(6)
			up := "INSERT INTO j (id, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)"
			for range 2 {
				for _, text := range []string{"UPDATE j SET v = ? WHERE 1 = ? AND id = 1", "UPDATE j SET v = ? WHERE id = ?"} {
					if _, err := v.exec(ctx, text, "a", 1); err != nil {
						t.Errorf("equal values: %v", err)
					}
				}
				if _, err := v.exec(ctx, up, 1, "a"); err != nil {
					t.Errorf("an upsert of equal values: %v", err)
				}
			}
			_, err := v.exec(ctx, up, 2, "x")
			v.fenced(err, "j", 6, 7)
			_, err = drain(v.db.QueryContext(ctx, up+" RETURNING id", 2, "x"))
			v.fenced(err, "j", 6, 7)
			v.want("j", "1|a|10|f6, 2|b|20|f7")
		})
	}
}

func TestCase18PgxModes(t *testing.T) { // gorm#7675, pgx#880
	for _, e := range only(postgresEngines()[:5]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			v.do("ALTER TABLE j ADD COLUMN at timestamptz, ADD COLUMN raw bytea, ADD COLUMN ids integer[]")
			v = v.again(fencedsql.WithTables(tables...))
			at, text := time.Unix(1, 0).UTC(), "UPDATE j SET at = $1, raw = $2, ids = $3 WHERE id = $4"
			for _, mode := range [][]any{nil, {pgx.QueryExecModeExec}} {
				args := append(mode, at, []byte{1, 2}, []int32{3, 4}, 1)
				if _, want := v.bare.Exec(text, args...); want != nil {
					t.Fatalf("the bare driver: %v", want)
				}
				v.do("DELETE FROM violations")
				if n, err := affected(v.db.ExecContext(v.under(6), text, args...)); n != 1 || err != nil {
					t.Errorf("%d rows, %v", n, err)
				}
				args[len(args)-1] = 2
				_, err := v.db.ExecContext(v.under(6), text, args...)
				v.fenced(err, "j", 6, 7)
			}
			var n int
			if err := v.bare.QueryRow(`SELECT count(*) FROM j WHERE at = to_timestamp(1) AND raw = '\x0102' AND ids = '{3,4}' AND id = 1`).Scan(&n); n != 1 || err != nil {
				t.Errorf("the row is not as bare: %d, %v", n, err)
			}
			v.clean()
		})
	}
}

func TestCase21CancelledTransaction(t *testing.T) { // go-sqlite3#769
	for _, e := range only(sqliteEngines) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			ctx := v.under(6)
			slow := "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100000000) UPDATE plain SET v = (SELECT max(i) FROM c)"
			for _, whole := range []bool{true, false} {
				txCtx, stCtx := ctx, ctx
				c, cancel := context.WithCancel(ctx)
				if whole {
					txCtx = c
				}
				stCtx = c
				tx, err := v.db.BeginTx(txCtx, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.ExecContext(ctx, "INSERT INTO plain (id, v) VALUES (2, 'in the transaction')"); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(30*time.Millisecond, cancel) // in the middle of a statement that takes minutes
				if _, err = tx.ExecContext(stCtx, slow); err == nil {
					t.Fatal("the slow statement was not cancelled")
				}
				for _, text := range []string{"UPDATE j SET v = 'outside' WHERE id = 1", "INSERT INTO plain (id, v) VALUES (3, 'outside')", "DELETE FROM j WHERE n = 10"} {
					if _, err := tx.ExecContext(ctx, text); err == nil {
						t.Errorf("%s: ran after the transaction was rolled back", text)
					}
				}
				if err := tx.Commit(); err == nil {
					t.Error("Commit of a transaction that was rolled back")
				}
				v.want("j", jStart)
				v.want("plain", "1|p")
			}
			v.ok(ctx, 1, "UPDATE j SET v = 'next' WHERE id = 1")
		})
	}
}

// What text begins or ends a transaction in SQLite may hide, or fail half-way.
func TestTransactionsOfText(t *testing.T) {
	for _, e := range only(sqliteEngines) {
		t.Run(e.name, func(t *testing.T) {
			base := e.open(t)
			run := func(name string, texts ...string) {
				t.Run(name, func(t *testing.T) {
					v := base.with(t)
					c, err := v.db.Conn(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					ctx := v.under(6)
					for _, text := range texts {
						_, err := c.ExecContext(ctx, strings.TrimLeft(text, "!?"))
						switch {
						case text[0] == '!':
							v.fenced(err, "j", 6, 7)
						case text[0] != '?' && err != nil:
							t.Errorf("%s: %v", text, err)
						}
					}
					v.want("plain", "1|p")
					v.want("j", jStart)
					_, _ = c.ExecContext(ctx, "ROLLBACK")
				})
			}
			late, other := "!UPDATE j SET v = 'late' WHERE id = 2", "INSERT INTO plain (id, v) VALUES (2, 'half')"
			run("byte order mark", "BEGIN", late, other, "!\ufeffCOMMIT")
			run("comment", "BEGIN", late, other, "!-- x\n/* y */ ;COMMIT TRANSACTION;")
			run("NUL", "BEGIN", late, other, "!COMMIT\x00")
			run("garbage behind", "BEGIN", late, other, "!COMMIT; garbage here")
			run("in a list", "BEGIN", late, other, "!SELECT 1; COMMIT")
			run("begun by a text that failed", "?BEGIN; INSERT INTO nope VALUES (1)", late, other, "!COMMIT")
			run("savepoint of a text that failed", "?SAVEPOINT s; INSERT INTO nope VALUES (1)", late, other, "!RELEASE s")
			run("savepoint as a transaction", "SAVEPOINT s", late, other, "!RELEASE s")

			t.Run("lost, and the connection goes on", func(t *testing.T) {
				v := base.with(t)
				v.db.SetMaxOpenConns(1)
				defer v.db.SetMaxOpenConns(0)
				c, err := v.db.Conn(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range []string{"BEGIN", other, "?INSERT OR ROLLBACK INTO plain (id, v) VALUES (2, 'again')", "?" + other, "BEGIN", "COMMIT"} {
					if _, err := c.ExecContext(context.Background(), strings.TrimLeft(text, "?")); (err != nil) != (text[0] == '?') {
						t.Errorf("%s: %v", text, err)
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				v.want("plain", "1|p")
				v.ok(context.Background(), 1, other)
			})
		})
	}
}

func TestSQLiteOddities(t *testing.T) {
	for _, e := range only(sqliteEngines) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			// More rows than parameters would be left for, one each.
			const n = 10_000
			args := make([]any, 0, 3*n)
			for i := range n {
				args = append(args, i+10, "x", i)
			}
			v.ok(v.under(6), n, "INSERT INTO j (id, v, n) VALUES (?, ?, ?)"+strings.Repeat(", (?, ?, ?)", n-1), args...)
			v.clean()
			v.reset()

			// A DELETE whose rows are counted is a result like any other.
			res, err := v.db.ExecContext(v.under(6), "DELETE FROM j WHERE n = 10")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := res.LastInsertId(); err != nil {
				t.Errorf("LastInsertId: %v", err)
			}
			v.reset()

			// A definition that goes through the pool is read anew.
			admin := fencedsql.Unfenced(context.Background())
			v.ok(v.under(6), 1, "INSERT INTO onlyonce VALUES (3, 'c')")
			for _, text := range []string{"DROP TABLE onlyonce", "CREATE TABLE onlyonce (v TEXT, id INTEGER NOT NULL, fence TEXT NOT NULL)"} {
				if _, err := v.db.ExecContext(admin, text); err != nil {
					t.Fatal(err)
				}
			}
			_, err = v.exec(v.under(6), "INSERT INTO onlyonce VALUES ('d', 4)")
			v.is(err, fencedsql.ErrSchema) // its key is no longer unique
			if _, err := v.db.ExecContext(admin, "CREATE UNIQUE INDEX onlyonce_id ON onlyonce (id)"); err != nil {
				t.Fatal(err)
			}
			v.ok(v.under(6), 1, "INSERT INTO onlyonce VALUES ('d', 4)")
			v.want("onlyonce", "d|4|f6")

			// The column was checked, and then someone made it nullable.
			v.ok(v.under(6), 1, "UPDATE nokey SET v = 'x' WHERE id = 1")
			v.do("DROP TABLE nokey", "CREATE TABLE nokey (id INTEGER, v TEXT, fence TEXT)", "INSERT INTO nokey VALUES (2, 'b', NULL)")
			for _, text := range []string{"UPDATE nokey SET v = 'x' WHERE id = 2", "DELETE FROM nokey"} {
				if _, err := v.exec(v.under(6), text); err == nil {
					t.Errorf("%s: no error over NULL", text)
				}
			}
			v.want("nokey", "2|b|NULL")
		})
	}
}

func TestCase22TwoConnections(t *testing.T) { // go-sqlite3#274
	// A transaction that begins with a fenced write takes the write lock at
	// once, as it would bare: no read of ours comes before it.
	for _, e := range only(sqliteEngines) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			ctx := v.under(8)
			tx, err := v.db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			// Another connection writes after BEGIN and before the first statement.
			v.do("UPDATE plain SET v = 'other'")
			if _, err := tx.Exec("UPDATE j SET v = 'x' WHERE id = 1"); err != nil {
				t.Errorf("a write is busy that bare would not be: %v", err)
			}
			if _, err := fencedsql.Claim(ctx, tx, "j", 2); err != nil {
				t.Errorf("Claim: %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}

			// The same with a transaction of text, on a new pool: the write waits for another, whose commit no snapshot of
			// ours precedes.
			v = v.again(fencedsql.WithTables(tables...))
			v.reset()
			c, other := v.conn(), v.bareConn()
			ctx = v.under(9)
			for _, text := range []string{"BEGIN IMMEDIATE", "UPDATE plain SET v = 'third'"} {
				if _, err := other.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
				t.Fatal(err)
			}
			committed := make(chan error, 1)
			time.AfterFunc(100*time.Millisecond, func() {
				_, err := other.ExecContext(context.Background(), "COMMIT")
				committed <- err
			})
			if _, err := c.ExecContext(ctx, "UPDATE j SET v = 'y' WHERE id = 1"); err != nil {
				t.Errorf("a write is busy that bare would not be: %v", err)
			}
			if err := <-committed; err != nil {
				t.Error(err)
			}
			if _, err := c.ExecContext(ctx, "COMMIT"); err != nil {
				t.Error(err)
			}
			v.want("j", "1|y|10|f9, 2|b|20|f7")
			v.want("plain", "1|third")
		})
	}
}

func TestCase28FenceColumns(t *testing.T) {
	each(t, func(t *testing.T, e *engine) {
		if len(e.unfit) < 5 {
			t.Fatalf("only %d tables are tried", len(e.unfit))
		}
		c := fencedsql.WithTables(fencedsql.Table{Name: "c", Key: []string{"id"}})
		base := e.open(t, c)
		for name, create := range e.unfit {
			t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
				// What was checked or prepared stays so: each table has pools of its own.
				v := base.with(t).again(c)
				v.do(strings.Split(create, ";\n")...)
				defer base.do("DROP TABLE c")
				v.do("INSERT INTO c (id, v) VALUES (1, 'a')")
				ctx := v.under(6)
				var se *fencedsql.SchemaError
				for _, text := range []string{"UPDATE c SET v = 'x' WHERE id = 1", "UPDATE c SET v = 'x'", "INSERT INTO c (id, v) VALUES (2, 'x')", "DELETE FROM c WHERE id = 1"} {
					_, err := v.exec(ctx, text)
					v.is(err, fencedsql.ErrSchema)
					if !errors.As(err, &se) || se.Table != "c" {
						t.Fatalf("got %v, want a SchemaError of table c", err)
					}
					if got := v.show("c"); !strings.HasPrefix(got, "1|a") || strings.Contains(got, ", ") {
						t.Errorf("%s: the rows are %s", text, got)
					}
				}
				// The DDL of the error mends it.
				v.do(strings.Split(se.DDL, ";\n")...)
				v.ok(ctx, 1, "UPDATE c SET v = 'x' WHERE id = 1")
				if got := v.again(c).show("c"); !strings.HasPrefix(got, "1|x") || !strings.Contains(got, "f6") {
					t.Errorf("after\n%s\nthe row is %s", se.DDL, got)
				}
			})
		}
		v := base.with(t)
		_, err := v.exec(v.under(6), "UPDATE c SET v = 'x' WHERE id = 1")
		v.is(err, fencedsql.ErrSchema)

		// A key that is registered wrong is not the table's fault.
		v = v.again(fencedsql.WithTables(fencedsql.Table{Name: "j", Key: []string{"idd"}}))
		_, err = v.exec(v.under(6), "UPDATE j SET v = 'x' WHERE id = 1")
		v.is(err, fencedsql.ErrSchema)
		if got := err.Error(); !strings.Contains(got, "no key column") || !strings.Contains(got, "idd") || strings.Contains(got, "To mend it") {
			t.Errorf("%s", got)
		}
		v.want("j", jStart)
	})
}

func TestUnfitSQLite(t *testing.T) {
	for _, e := range only(sqliteEngines) {
		v := e.open(t, fencedsql.WithTables(fencedsql.Table{Name: "c", Key: []string{"id"}}))
		v.do("CREATE TABLE c (id INTEGER PRIMARY KEY ON CONFLICT REPLACE, v TEXT, fence TEXT NOT NULL DEFAULT '')")
		_, err := v.exec(v.under(6), "INSERT INTO c (id, v) VALUES (1, 'x')")
		v.is(err, fencedsql.ErrSchema)
		v.do("DROP TABLE c", "CREATE VIEW c AS SELECT 1 AS id, 'v' AS v, '' AS fence")
		_, err = v.exec(v.under(6), "UPDATE c SET v = 'x' WHERE id = 1")
		v.is(err, fencedsql.ErrSchema)
	}
}

func TestBadInput(t *testing.T) {
	fenced := fencedsql.WithTables(fencedsql.Table{Name: "j"})
	open := func(driverName, dsn string, opts ...fencedsql.Option) error {
		db, err := fencedsql.Open(driverName, dsn, opts...)
		if err == nil {
			db.Close()
		}
		return err
	}
	viaSQL := func(dsn string) error {
		db, err := sql.Open("fencedsql", dsn)
		if err == nil {
			db.Close()
		}
		return err
	}
	sql.Register("strange", strangeDriver{})
	for _, c := range []struct {
		err  error
		want string
	}{
		{viaSQL("app.db"), `"sqlite3:app.db"`},
		{viaSQL(""), `"sqlite3:app.db"`},
		{viaSQL(":memory:"), `"sqlite3:app.db"`},
		{viaSQL("hunter2:hunter2@tcp(host)/db"), "does not begin with the name of a driver"},
		{open("nosuch", "x"), `no driver "nosuch"`},
		{viaSQL("fencedsql:sqlite3:x"), "cannot wrap itself"},

		{open("strange", "x", fenced), "fencedsql.WithDialect"},
		{open("sqlite3", "x", fencedsql.WithDialect("nosuch")), `dialect "nosuch"`},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{})), "empty"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a..b"})), `"a..b"`},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a.b.c"})), `"a.b.c"`},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "`j`"})), "quotes"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "main. j"})), "blank"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a", Key: []string{""}})), "empty"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a", Fence: "f", Key: []string{"f"}})), "column f"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a"}, fencedsql.Table{Name: "A", Fence: "g"})), "registered twice"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a"}), fencedsql.WithTables(fencedsql.Table{Name: "a", Once: true})), "registered twice"},
		{open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a", Encoding: 9})), "encoding"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "hunter2") {
			t.Errorf("got %v, want something with %q", c.err, c.want)
		}
	}
	if err := open("strange", "x", fenced, fencedsql.WithDialect("sqlite")); err != nil {
		t.Errorf("WithDialect: %v", err)
	}
	if _, err := fencedsql.NewConnector(nil); err == nil {
		t.Error("NewConnector(nil) gives no error")
	}
	if err := open("sqlite3", "x", fencedsql.WithTables(fencedsql.Table{Name: "a"}, fencedsql.Table{Name: "a", Fence: "fence"})); err != nil {
		t.Errorf("the same table twice: %v", err)
	}

	db, err := sql.Open("fencedsql", "sqlite3:"+filepath.Join(t.TempDir(), "none.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(fencedsql.Unfenced(context.Background()), "CREATE TABLE late (id INTEGER PRIMARY KEY, v, fence TEXT NOT NULL DEFAULT '')"); err != nil {
		t.Error(err)
	}

	// Registration takes effect on a database, and a statement, that are there.
	fencedsql.RegisterTable(fencedsql.Table{Name: "registered_first"})
	st, err := db.Prepare("INSERT INTO late (id) VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Exec(1); err != nil {
		t.Errorf("before registration: %v", err)
	}
	fencedsql.RegisterTable(fencedsql.Table{Name: "late", Key: []string{"id"}})
	if _, err := st.Exec(2); !errors.Is(err, fencedsql.ErrNoLease) {
		t.Errorf("after registration: %v", err)
	}
	if _, err := st.ExecContext(lease.New("k", lease.Fence{Count: 3}).Context(context.Background()), 2); err != nil {
		t.Errorf("after registration with a lease: %v", err)
	}
	for _, bad := range []fencedsql.Table{{}, {Name: "late", Fence: "other", Key: []string{"id"}}} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "fencedsql: ") {
					t.Errorf("RegisterTable(%+v): %v", bad, r)
				}
			}()
			fencedsql.RegisterTable(bad)
		}()
	}
}

type strangeDriver struct{}

func (strangeDriver) Open(string) (driver.Conn, error) { return nil, io.ErrUnexpectedEOF }

// TestEndsOfTransactions: however a transaction is ended, or begun, after
// ErrFenced, nothing of it is committed.
func TestEndsOfTransactions(t *testing.T) {
	other, late := "UPDATE plain SET v = 'half' WHERE id = 1", "!UPDATE j SET v = 'late' WHERE id <= 2 AND id >= 2"
	both := [][]string{
		{"BEGIN", "SAVEPOINT s", late, "/* way */ -- back\n ROLLBACK TO SAVEPOINT s", "INSERT INTO plain VALUES (2, 'undone')", "ROLLBACK"},
		{"BEGIN", "SAVEPOINT s", late, "ROLLBACK TO SAVEPOINT s", "UPDATE j SET v = 'a' WHERE id = 99", "ROLLBACK"},
		{"BEGIN", other, "SAVEPOINT s", late, "!COMMIT"},
		{"BEGIN", other, late, "!COMMIT AND CHAIN"},
		{"BEGIN", "COMMIT AND CHAIN", other, late, "!COMMIT"},
		{"BEGIN", "ROLLBACK AND CHAIN", other, late, "!COMMIT"},
	}
	for dialect, lists := range map[string][][]string{
		"postgres": both,
		"mysql": append([][]string{
			{"BEGIN", other, late, "/* app */ SELECT 1", "-- name: Log :exec\nINSERT INTO plain VALUES (2, 'undone')", "!COMMIT"},
			{"BEGIN", other, late, "SET @a = 1", "DO 1", "# x\nUPDATE plain SET v = 'undone'", "!COMMIT"},
			{"BEGIN", other, late, "!/*!40000 COMMIT */"},
			{"BEGIN", other, late, "!BEGIN"},
			{"BEGIN", other, late, "!START TRANSACTION"},
			{"BEGIN", other, late, "!CREATE TABLE made (id INT)"},
			{"BEGIN", other, late, "!SET autocommit = 1"},
			{"BEGIN", other, late, "!LOCK TABLES plain WRITE"},
			{"SET autocommit = 0", other, late, "!COMMIT", "SET autocommit = 1"},
		}, both...),
	} {
		for _, e := range only(append(postgresEngines()[3:4], mariadbEngines()[2])) {
			if e.dialect != dialect {
				continue
			}
			base := e.open(t)
			for _, texts := range lists {
				t.Run(e.name+"/"+strings.Join(texts, ";"), func(t *testing.T) {
					v := base.with(t)
					c, err := v.db.Conn(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					ctx := v.under(6)
					for _, text := range texts {
						_, err := c.ExecContext(ctx, strings.TrimLeft(text, "!"))
						if text[0] == '!' {
							v.fenced(err, "j", 6, 7)
						} else if err != nil {
							t.Errorf("%s: %v", text, err)
						}
					}
					v.want("plain", "1|p")
					v.want("j", jStart)
				})
			}
			t.Run(e.name+"/BeginTx over it", func(t *testing.T) {
				v := base.with(t)
				c, err := v.db.Conn(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx := v.under(6)
				for _, text := range []string{"BEGIN", other, late} {
					_, err = c.ExecContext(ctx, strings.TrimLeft(text, "!"))
				}
				v.fenced(err, "j", 6, 7)
				_, err = c.BeginTx(ctx, nil)
				v.fenced(err, "j", 6, 7)
				v.want("plain", "1|p")
			})
		}
	}
}

// A DELETE changes nothing that its own condition reads (MySQL's columns that
// are ON UPDATE, the fence itself), and joins a transaction that stands.
func TestDeleteAfterRead(t *testing.T) {
	for _, e := range only(mariadbEngines()[2:3]) {
		v := e.open(t, fencedsql.WithTables(append(tables, fencedsql.Table{Name: "upd", Key: []string{"id"}})...))
		v.do("CREATE TABLE upd (id INT PRIMARY KEY, at TIMESTAMP(6) NOT NULL DEFAULT '2020-01-01' ON UPDATE CURRENT_TIMESTAMP(6), fence CHAR(40) NOT NULL)")
		for _, del := range []string{"DELETE FROM upd WHERE at < '2020-06-01'", "DELETE FROM upd WHERE fence = '" + text(5) + "'", "DELETE FROM upd ORDER BY at LIMIT 1"} {
			v.do("DELETE FROM upd", "INSERT INTO upd VALUES (1, '2020-01-01', '"+text(5)+"'), (2, '2021-01-01', '"+text(6)+"')")
			v.ok(v.under(6), 1, del)
			if got := v.show("upd"); !strings.HasPrefix(got, "2|") {
				t.Errorf("%s leaves %s", del, got)
			}
		}
		// A number means several text keys.
		v = v.again(fencedsql.WithTables(append(tables, fencedsql.Table{Name: "vk", Key: []string{"k"}})...))
		v.do("CREATE TABLE vk (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20), fence CHAR(40) NOT NULL)")
		for _, write := range []string{"UPDATE vk SET v = 'x' WHERE k = ?", "DELETE FROM vk WHERE k = ?"} {
			v.do("DELETE FROM vk", "INSERT INTO vk VALUES ('1', 'a', '"+text(5)+"'), ('01', 'b', '"+text(7)+"')")
			_, err := v.exec(v.under(6), write, 1)
			v.fenced(err, "vk", 6, 7)
			if got := v.show("vk"); got != "01|b|f7, 1|a|f5" {
				t.Errorf("%s: %s", write, got)
			}
			v.ok(v.under(6), 1, write, "1")
			_, err = v.exec(v.under(6), write, 1) // after a text took the short way
			v.fenced(err, "vk", 6, 7)
		}
		c, err := v.db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := v.under(6)
		for _, text := range []string{"SET autocommit = 0", "UPDATE plain SET v = 'pending'", "DELETE FROM nokey WHERE v = 'a'", "ROLLBACK", "SET autocommit = 1"} {
			if _, err := c.ExecContext(ctx, text); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		v.want("plain", "1|p")
		v.want("nokey", "1|a|f5, 2|b|f7")
	}
}

// TestSharedParameter: a parameter has one type in all its places, and may mean several rows by it.
func TestSharedParameter(t *testing.T) {
	for _, e := range only(postgresEngines()) {
		t.Run(e.name, func(t *testing.T) {
			keyed := []fencedsql.Table{{Name: "big", Key: []string{"id"}}, {Name: "slots", Key: []string{"at"}}, {Name: "names", Key: []string{"id"}}}
			base := e.open(t, fencedsql.WithTables(keyed...))
			base.do("CREATE TABLE big (id bigint PRIMARY KEY, v text, fence text NOT NULL)",
				"CREATE TABLE slots (at timestamp PRIMARY KEY, v text, fence text NOT NULL)",
				"CREATE TABLE names (id varchar(9) PRIMARY KEY, v text, fence text NOT NULL)")
			for _, c := range []struct {
				table, newer, older, text string
				arg                       any
			}{
				{"big", "9007199254740992", "9007199254740993", "UPDATE big SET v = 'x' WHERE $1::float8 > 0 AND id = $1", 9007199254740992.0},
				{"big", "9007199254740992", "9007199254740993", "WITH c AS (SELECT $1::float8 AS f) UPDATE big SET v = 'x' WHERE id = $1", 9007199254740992.0},
				{"big", "9007199254740992", "9007199254740993", "DELETE FROM big WHERE $1::float8 > 0 AND id = $1", 9007199254740992.0},
				{"names", "a", "a ", "UPDATE names SET v = 'x' WHERE $1::bpchar <> '' AND id = $1", "a"},
				{"slots", "2020-03-29 02:30", "2020-03-29 03:30", "UPDATE slots SET v = 'x' WHERE $1::timestamptz < now() AND at = $1", "2020-03-29 01:30:00Z"},
			} {
				v := base.with(t)
				v.do("DELETE FROM "+c.table, "INSERT INTO "+c.table+" VALUES ('"+c.newer+"', 'a', '"+text(7)+"'), ('"+c.older+"', 'a', '"+text(5)+"')")
				before := v.show(c.table)
				conn := v.conn()
				if _, err := conn.ExecContext(t.Context(), "SET TIME ZONE 'Europe/Berlin'"); err != nil {
					t.Fatal(err)
				}
				_, err := conn.ExecContext(v.under(6), c.text, c.arg)
				// As literals each has the type of its place, and this one then means no row.
				if apart := c.table == "slots" && strings.HasSuffix(e.name, "simple_protocol"); errors.Is(err, fencedsql.ErrFenced) == apart || apart && err != nil {
					t.Errorf("%s: %v", c.text, err)
				}
				if after := v.show(c.table); after != before {
					t.Errorf("%s\n%s became %s", c.text, before, after)
				}
				if _, err := conn.ExecContext(v.under(9), c.text, c.arg); err != nil {
					t.Errorf("live: %s: %v", c.text, err)
				}
				conn.Close()
			}
		})
	}
}

// TestKeyThatIsNoLonger: an index compares as its column does, and stays.
func TestKeyThatIsNoLonger(t *testing.T) {
	for _, e := range only(postgresEngines()[3:4]) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t, fencedsql.WithTables(fencedsql.Table{Name: "names", Key: []string{"name"}}))
			v.do("CREATE EXTENSION citext", "CREATE TABLE names (name citext, v text, fence text NOT NULL)", "CREATE UNIQUE INDEX by_text ON names (name text_ops)",
				"INSERT INTO names VALUES ('bob', 'old', '"+text(3)+"'), ('Bob', 'newer', '"+text(9)+"')")
			before := v.show("names")
			_, err := v.exec(v.under(5), "UPDATE names SET v = 'x' WHERE name = ?", "BOB")
			v.is(err, fencedsql.ErrSchema)
			if after := v.show("names"); after != before {
				t.Errorf("%s became %s", before, after)
			}
			v.do("DELETE FROM names WHERE v = 'newer'", "CREATE UNIQUE INDEX by_name ON names (name)")
			v.ok(v.under(5), 1, "UPDATE names SET v = 'x' WHERE name = ?", "BOB")
			if _, err := v.exec(t.Context(), "DROP INDEX by_name"); err != nil {
				t.Fatal(err)
			}
			v.do("INSERT INTO names VALUES ('Bob', 'newer', '" + text(9) + "')")
			before = v.show("names")
			_, err = v.exec(v.under(6), "UPDATE names SET v = 'y' WHERE name = ?", "BOB")
			v.is(err, fencedsql.ErrSchema)
			if after := v.show("names"); after != before {
				t.Errorf("%s became %s", before, after)
			}
		})
	}
}
