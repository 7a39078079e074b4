package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/servers"
	"github.com/fencedsql/fencedsql/lease"
)

// each engine once: how statements are sent makes no difference to locks.
func concurrent(t *testing.T, run func(t *testing.T, v *env)) {
	seen := map[string]bool{}
	for _, e := range engines() {
		if seen[e.dialect] {
			continue
		}
		seen[e.dialect] = true
		t.Run(e.name, func(t *testing.T) { run(t, e.open(t)) })
	}
}

var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

func holder(fence uint64) context.Context {
	return lease.New(fmt.Sprintf("holder %d", fence), lease.Fence{Count: fence}).Context(context.Background())
}

// untilBlocked returns when a statement waits for a lock; what comes from the
// channel is its end.
func (v *env) untilBlocked(ended <-chan error) {
	v.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		var n int
		if err := v.bare.QueryRow(v.blocked).Scan(&n); err != nil {
			v.Fatal(err)
		}
		if n > 0 {
			return
		}
		select {
		case err := <-ended:
			v.Fatalf("it did not wait: %v", err)
		case <-time.After(120 * time.Millisecond): // InnoDB renews the answer when nobody asked for 100 ms
		}
	}
	v.Fatal("no statement is blocked")
}

// TestBlockedWriter: a stale write waits behind the newer holder's, and is
// refused when that commits; when it rolls back the write goes through.
func TestBlockedWriter(t *testing.T) {
	concurrent(t, func(t *testing.T, base *env) {
		if base.blocked == "" {
			return
		}
		for _, text := range []string{"UPDATE j SET v = 'late' WHERE id = 1", "UPDATE j SET v = 'late' WHERE n = 10", "DELETE FROM j WHERE id = 1", "DELETE FROM j WHERE n = 10"} {
			for _, level := range levels {
				for _, commits := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%v/commits=%v", text, level, commits), func(t *testing.T) {
						v := base.with(t)
						first, err := v.db.BeginTx(holder(8), nil)
						if err != nil {
							t.Fatal(err)
						}
						if _, err := first.Exec("UPDATE j SET v = 'newer' WHERE id = 1"); err != nil {
							t.Fatal(err)
						}
						late := make(chan error, 1)
						go func() {
							late <- func() error {
								tx, err := v.db.BeginTx(holder(6), &sql.TxOptions{Isolation: level})
								if err != nil {
									return err
								}
								if _, err := tx.Exec(text); err != nil {
									return errors.Join(err, tx.Rollback())
								}
								return tx.Commit()
							}()
						}()
						defer first.Rollback()
						v.untilBlocked(late)
						if !commits {
							if err := first.Rollback(); err != nil {
								t.Fatal(err)
							}
							if err := <-late; err != nil {
								t.Errorf("the newer holder gave up, and yet: %v", err)
							}
							return
						}
						if err := first.Commit(); err != nil {
							t.Fatal(err)
						}
						err = <-late
						if v.snapshot && level != sql.LevelReadCommitted {
							if !v.conflict(err) || errors.Is(err, fencedsql.ErrFenced) {
								t.Errorf("got %v, want the engine's own refusal", err)
							}
						} else {
							v.fenced(err, "j", 6, 8)
						}
						if got := v.show("j"); got != "1|newer|10|f8, 2|b|20|f7" {
							t.Errorf("the rows are %s", got)
						}
					})
				}
			}
		}
	})
}

// TestSnapshot: a transaction that read the row before the newer holder wrote
// it sees the old fence in plain reads, and is refused all the same.
func TestSnapshot(t *testing.T) {
	concurrent(t, func(t *testing.T, base *env) {
		if base.blocked == "" {
			return
		}
		for _, level := range levels[:2] {
			t.Run(fmt.Sprint(level), func(t *testing.T) {
				v := base.with(t)
				tx, err := v.db.BeginTx(holder(6), &sql.TxOptions{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				var fence string
				if err := tx.QueryRow("SELECT fence FROM j WHERE id = 1").Scan(&fence); err != nil || fence != text(5) {
					t.Fatal(fence, err)
				}
				if _, err := v.db.ExecContext(holder(8), "UPDATE j SET v = 'newer' WHERE id = 1"); err != nil {
					t.Fatal(err)
				}
				_, err = tx.Exec("UPDATE j SET v = 'late' WHERE id = 1")
				if v.snapshot && level == sql.LevelRepeatableRead {
					if !v.conflict(err) || errors.Is(err, fencedsql.ErrFenced) {
						t.Errorf("got %v, want the engine's own refusal", err)
					}
				} else {
					v.fenced(err, "j", 6, 8)
					v.fenced(tx.Commit(), "j", 6, 8)
				}
				if got := v.show("j"); got != "1|newer|10|f8, 2|b|20|f7" {
					t.Errorf("the rows are %s", got)
				}
			})
		}
	})
}

// TestRace: two holders write one row at once. Afterwards it is the newer
// one's, and the older was told unless it was first.
func TestRace(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	concurrent(t, func(t *testing.T, base *env) {
		for _, level := range append([]sql.IsolationLevel{sql.LevelDefault}, levels...) {
			if base.blocked == "" && level != sql.LevelDefault {
				continue // SQLite has one level
			}
			t.Run(fmt.Sprint(level), func(t *testing.T) {
				v := base.with(t)
				write := func(fence uint64, text string) error {
					for {
						tx, err := v.db.BeginTx(holder(fence), &sql.TxOptions{Isolation: level})
						if err != nil {
							return err
						}
						if _, err = tx.Exec(v.mark(text), fmt.Sprint(fence), 1); err == nil {
							err = tx.Commit()
						} else {
							err = errors.Join(err, tx.Rollback())
						}
						if err == nil || !v.conflict(err) || errors.Is(err, fencedsql.ErrFenced) {
							return err
						}
					}
				}
				texts := []string{"UPDATE j SET v = ? WHERE id = ?", "UPDATE j SET v = ? WHERE id <= ?"}
				told := 0
				for i := range rounds {
					older, newer := uint64(10+2*i), uint64(11+2*i)
					var wg sync.WaitGroup
					var errOlder, errNewer error
					wg.Add(2)
					go func() { defer wg.Done(); errOlder = write(older, texts[i%2]) }()
					go func() { defer wg.Done(); errNewer = write(newer, texts[i/2%2]) }()
					wg.Wait()
					if errNewer != nil {
						t.Fatalf("round %d: the newer holder is refused: %v", i, errNewer)
					}
					if errOlder != nil {
						v.fenced(errOlder, "j", older, newer)
						told++
					}
					if got, want := v.show("j"), fmt.Sprintf("1|%d|10|f%d, 2|b|20|f7", newer, newer); got != want {
						t.Fatalf("round %d: the rows are %s, want %s (the older holder got %v)", i, got, want, errOlder)
					}
				}
				t.Logf("%d rounds, the older holder was refused in %d", rounds, told)
			})
		}
	})
}

// TestDeadlock: the engine's own error reaches the caller, and what follows in
// the transaction that it ended does not run outside of it.
func TestDeadlock(t *testing.T) {
	concurrent(t, func(t *testing.T, base *env) {
		if base.blocked == "" {
			return
		}
		v := base.with(t)
		ctx := holder(8)
		var txs [2]*sql.Tx
		for i := range txs {
			tx, err := v.db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(v.mark("UPDATE j SET v = ? WHERE id = ?"), fmt.Sprint("tx", i), 1+i); err != nil {
				t.Fatal(err)
			}
			txs[i] = tx
		}
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, tx := range txs {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if _, errs[i] = tx.Exec(v.mark("UPDATE j SET n = 99 WHERE id = ?"), 2-i); errs[i] != nil {
					if !v.conflict(errs[i]) {
						t.Errorf("got %v, want the engine's deadlock", errs[i])
					}
					if _, err := tx.Exec("UPDATE plain SET v = 'outside'"); err == nil {
						t.Error("a statement ran after the transaction was rolled back")
					}
					_ = tx.Rollback()
				} else if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("one of the two must be the victim: %v, %v", errs[0], errs[1])
		}
		if got := v.show("plain"); got != "1|p" {
			t.Errorf("plain holds %s", got)
		}
	})
}

// TestServerKilled: the row is wholly written with its fence or untouched, and
// the error is the driver's.
func TestServerKilled(t *testing.T) {
	for name, kind := range map[string]servers.Kind{"postgres": servers.KindPostgres, "mariadb": servers.KindMariaDB} {
		t.Run(name, func(t *testing.T) {
			s, err := servers.Start(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			texts := map[string]*dialectTexts{"pgx": postgresTexts, "mysql": mysqlTexts}[s.Driver()]
			dsn := s.DSN(s.Database(t))
			e := &engine{name: name, driver: s.Driver(), dialectTexts: texts, create: func(testing.TB) string { return dsn }}
			v := e.open(t)
			v.do("DELETE FROM witness") // no lease is told to the witness here
			var done uint64
			for range 3 {
				wrote := make(chan struct{})
				stopped := make(chan error)
				go func() {
					for i := done + 100; ; i++ {
						if _, err := v.db.ExecContext(holder(i), v.mark("UPDATE j SET v = ?, n = 1 WHERE id = ?"), fmt.Sprint(i), 1); err != nil {
							stopped <- err
							return
						}
						done = i
						select {
						case wrote <- struct{}{}:
						default:
						}
					}
				}()
				for range 20 {
					<-wrote
				}
				if err := s.Kill9(); err != nil {
					t.Fatal(err)
				}
				err := <-stopped
				if errors.Is(err, fencedsql.ErrFenced) || errors.Is(err, fencedsql.ErrUnfenceable) || errors.Is(err, fencedsql.ErrSchema) {
					t.Errorf("the error is ours: %v", err)
				}
				if err := s.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				w := v.again(fencedsql.WithTables(tables...))
				var value, fence string
				if err := w.bare.QueryRow("SELECT v, fence FROM j WHERE id = 1").Scan(&value, &fence); err != nil {
					t.Fatal(err)
				}
				f, err := lease.ParseFence(fence)
				if err != nil {
					t.Fatal(err)
				}
				if value != f.String() || f.Count != done && f.Count != done+1 {
					t.Errorf("the row has v %s and fence %v; the last confirmed write was %d", value, f, done)
				}
				done = f.Count
				v = w
			}
		})
	}
}
