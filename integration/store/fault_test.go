package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/servers"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/sqlstore"
)

// TestPausedHolder, case 26: its late write is refused, its context says why, its release does not free the next
// holder's lease.
func TestPausedHolder(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		v.do("CREATE TABLE j (id BIGINT PRIMARY KEY, v VARCHAR(10), fence CHAR(40) NOT NULL)")
		v.do("INSERT INTO j VALUES (1, '', '" + lease.Fence{}.Text() + "')")
		app, err := fencedsql.Open(v.driver, v.dsn, fencedsql.WithTables(fencedsql.Table{Name: "j", Key: []string{"id"}}))
		v.ok(err)
		defer app.Close()
		write := func(ctx context.Context, text string) error {
			_, err := app.ExecContext(ctx, "UPDATE j SET v = '"+text+"' WHERE id = 1")
			return err
		}
		paused, other := v.store(), v.store().Locks("f", ttl)
		var next *sqlstore.Held
		late := errors.New("no write in time")
		hold := func(ctx context.Context, l *lease.Lease) error {
			if err := write(ctx, "first"); err != nil && l.Err() != nil {
				return late
			} else if err != nil {
				t.Error(err)
			}
			paused.Close() // as good as a stopped process: it renews no more
			next = v.must(other.Acquire(t.Context(), "1"))
			v.ok(write(next.Context(t.Context()), "second"))
			if err := context.Cause(ctx); !errors.Is(err, lease.ErrLost) {
				t.Errorf("cause %v", err)
			}
			return write(context.WithoutCancel(ctx), "late")
		}
		err = late
		for short := 300 * time.Millisecond; errors.Is(err, late) && short < patience; short *= 2 {
			err = paused.Locks("f", short).Hold(t.Context(), "1", hold)
		}
		if !errors.Is(err, fencedsql.ErrFenced) || !errors.Is(err, lease.ErrLost) {
			t.Errorf("Hold = %v, want ErrFenced and ErrLost", err)
		}
		if _, err := other.TryAcquire(t.Context(), "1"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("after the late release: %v", err)
		}
		v.ok(write(next.Context(t.Context()), "third"))
		v.ok(next.Release(t.Context()))

		// Under a semaphore there is no fence, and no write.
		h := v.must(v.store().Semaphore("s", 2, ttl).TryAcquire(t.Context()))
		if err := write(h.Context(t.Context()), "none"); !errors.Is(err, fencedsql.ErrNoLease) {
			t.Errorf("under a semaphore: %v", err)
		}
	})
}

// TestRenewalHangs: for longer than the time to live, on a lock that somebody has on the row. The lease ends while it does.
func TestRenewalHangs(t *testing.T) {
	atOnce(t, firsts(), func(t *testing.T, v *env) {
		// Longer than the test's patience. PostgreSQL waits for ever.
		v.dsn = strings.Replace(v.dsn, "_busy_timeout=5000", "_busy_timeout=180000", 1)
		if v.dialect == "mysql" {
			v.dsn += "?innodb_lock_wait_timeout=180"
		}
		s := v.store()
		h := v.must(s.Locks("f", time.Second).Acquire(t.Context(), "k"))
		other := v.must(v.store().Locks("f", time.Hour).TryAcquire(t.Context(), "other"))
		tx, err := v.open().Begin()
		v.ok(err)
		defer tx.Rollback()
		_, err = tx.Exec("UPDATE fencedsql_leases SET waits = waits + 1")
		v.ok(err)
		v.ended(h.Done())
		if err := h.Err(); !strings.Contains(err.Error(), "not renewed in time") {
			t.Error(err)
		}
		v.ok(tx.Rollback())
		n := v.must(v.store().Locks("f", ttl).Acquire(t.Context(), "k"))
		v.larger(n.Fence(), h.Fence())
		if err := h.Release(t.Context()); !errors.Is(err, lease.ErrLost) || n.Err() != nil {
			t.Errorf("%v, %v", err, n.Err())
		}
		v.ok(n.Release(t.Context()))
		v.ok(other.Release(t.Context()))
	})
}

// TestClockSteps: of the database's clock. As seen from the tables, all that it has written moves the other way.
func TestClockSteps(t *testing.T) {
	const hour = 3_600_000_000
	atOnce(t, firsts(), func(t *testing.T, v *env) {
		const ttl = 6 * time.Second
		a, b := v.store(), v.store()
		// Forward: nobody came, and the renewal takes it back.
		h := v.must(a.Locks("f", ttl).TryAcquire(t.Context(), "k"))
		v.do(fmt.Sprintf("UPDATE fencedsql_leases SET ends = ends - %d", int64(hour)))
		v.renewed(a, h.Lease, ttl)
		v.ok(h.Err())
		if _, err := b.Locks("f", ttl).TryAcquire(t.Context(), "k"); !errors.Is(err, lease.ErrHeld) {
			t.Error(err)
		}
		// Forward: somebody came, before the next renewal did.
		var n *sqlstore.Held
		v.eventually("another holder", func() (ok bool) {
			v.do(fmt.Sprintf("UPDATE fencedsql_leases SET ends = ends - %d", int64(hour)))
			var err error
			if n, err = b.Locks("f", ttl).TryAcquire(t.Context(), "k"); !errors.Is(err, lease.ErrHeld) {
				v.ok(err)
			}
			return err == nil
		})
		v.ended(h.Done())
		v.larger(n.Fence(), h.Fence())
		if err := h.Release(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
		v.ok(n.Release(t.Context()))
		// Back: the holder's next renewal corrects the end. For the fence see TestOrderWithoutClock.
		h = v.must(a.Locks("f", ttl).TryAcquire(t.Context(), "k"))
		v.larger(h.Fence(), n.Fence())
		v.do(fmt.Sprintf("UPDATE fencedsql_leases SET ends = ends + %d", int64(hour)))
		v.eventually("the end is corrected", func() bool {
			list, err := b.List(t.Context())
			return err == nil && len(list) == 1 && time.Until(list[0].Until) <= ttl
		})
		v.ok(h.Release(t.Context()))
	})
}

// TestConnectionsBreak: all of them, in the middle of Hold.
func TestConnectionsBreak(t *testing.T) {
	kill := map[string]string{
		"postgres": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
		"mysql":    "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
	}
	one := map[string]string{"postgres": "SELECT pg_terminate_backend(%d)", "mysql": "KILL %d"}
	atOnce(t, firsts(), func(t *testing.T, v *env) {
		if v.dialect == "sqlite" {
			return // a file has no connections to lose
		}
		const ttl = 6 * time.Second
		s := v.store()
		err := s.Locks("f", ttl).Hold(t.Context(), "k", func(ctx context.Context, l *lease.Lease) error {
			db := v.open()
			var ids []int
			rows, err := db.Query(kill[v.dialect])
			v.ok(err)
			for rows.Next() {
				var id int
				v.ok(rows.Scan(&id))
				ids = append(ids, id)
			}
			v.ok(rows.Err())
			if len(ids) == 0 {
				t.Error("no connections")
			}
			for _, id := range ids {
				db.Exec(fmt.Sprintf(one[v.dialect], id))
			}
			v.renewed(s, l, ttl)
			return l.Err()
		})
		v.ok(err)
	})
}

// TestRestart: the database is killed and comes back while leases are held and waited for.
func TestRestart(t *testing.T) {
	kinds := map[string]servers.Kind{"pgx": servers.KindPostgres, "mariadb": servers.KindMariaDB}
	var wg sync.WaitGroup // both at once, since they mostly wait
	for _, e := range firsts() {
		kind := kinds[e.name]
		if kind == "" {
			continue
		}
		restart := func(t *testing.T) {
			server, err := servers.Start(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			v := &env{t, e, server.DSN(server.Database(t))}
			const ttl = 45 * time.Second
			s := v.store()
			locks := s.Locks("f", ttl)
			var f lease.Fence
			err = locks.Hold(t.Context(), "k", func(ctx context.Context, l *lease.Lease) error {
				f = l.Fence()
				v.ok(server.Kill9())
				if _, err := locks.TryAcquire(t.Context(), "other"); err == nil || errors.Is(err, lease.ErrHeld) {
					t.Errorf("while it is down: %v", err)
				}
				v.ok(server.Restart(t.Context()))
				if _, err := v.store().Locks("f", ttl).TryAcquire(t.Context(), "k"); !errors.Is(err, lease.ErrHeld) {
					t.Errorf("after the restart: %v", err)
				}
				v.renewed(s, l, ttl)
				return l.Err()
			})
			v.ok(err)
			h := v.must(locks.TryAcquire(t.Context(), "k"))
			v.larger(h.Fence(), f)
			v.ok(h.Release(t.Context()))
		}
		wg.Go(func() { t.Run(e.name, restart) })
	}
	wg.Wait()
}

// TestFullDisk: no lease is given that is not stored, those that are held go on, and all is well when there is room.
func TestFullDisk(t *testing.T) {
	files := slices.DeleteFunc(all(), func(e *engine) bool { return e.dialect != "sqlite" })
	atOnce(t, files, func(t *testing.T, v *env) {
		const ttl = 6 * time.Second
		db := v.open()
		db.SetMaxOpenConns(1) // the pragma is the connection's
		s := v.storeOn(db)
		locks := s.Locks("f", ttl)
		h := v.must(locks.TryAcquire(t.Context(), "k"))
		limit := func(pages int) {
			t.Helper()
			_, err := db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages))
			v.ok(err)
		}
		limit(1) // which is held to the present size
		given := 0
		for ; ; given++ {
			n, err := locks.TryAcquire(t.Context(), fmt.Sprint(given, strings.Repeat("k", 400)))
			if err != nil {
				if !strings.Contains(err.Error(), "full") {
					t.Error(err)
				}
				break
			}
			defer n.Release(t.Context())
		}
		full := time.Now()
		v.eventually("a renewal of the full file", func() bool {
			list, err := s.List(t.Context())
			v.ok(err)
			if len(list) != given+1 {
				t.Fatalf("%d leases are stored, %d were given", len(list), given+1)
			}
			own := list[slices.IndexFunc(list, func(i sqlstore.Info) bool { return i.Key == "k" })]
			return own.Until.After(full.Add(ttl))
		})
		v.ok(h.Err())
		v.ok(h.Release(t.Context()))
		limit(1 << 30)
		n := v.must(locks.TryAcquire(t.Context(), "k"))
		v.larger(n.Fence(), h.Fence())
		v.ok(n.Release(t.Context()))
		var ok string
		v.ok(db.QueryRow("PRAGMA integrity_check").Scan(&ok))
		if ok != "ok" {
			t.Error(ok)
		}
	})
}

// TestLostAnswer: the answer to taking a lease is lost with its connection or its context. The caller leaves nothing.
func TestLostAnswer(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		v.dsn = strings.Replace(v.dsn, "_busy_timeout=5000", "_busy_timeout=100", 1) // which heeds no context
		s, other := v.store(), v.store()
		v.ok(v.must(s.Locks("f", ttl).TryAcquire(t.Context(), "k")).Release(t.Context()))
		tx, err := v.open().Begin()
		v.ok(err)
		_, err = tx.Exec("UPDATE fencedsql_leases SET waits = waits + 1")
		v.ok(err)
		if _, err := s.Locks("f", ttl).Acquire(v.within(200*time.Millisecond), "k"); err == nil {
			t.Error("took a locked row")
		}
		v.ok(tx.Rollback())
		h := v.must(other.Locks("f", ttl).Acquire(v.within(patience), "k"))
		v.ok(h.Release(t.Context()))
	})
}
