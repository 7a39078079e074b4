package store

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fencedsql/fencedsql/lease"
)

// BenchmarkHold is taking a key and giving it back, by eight goroutines: of the store, and of what a database has by
// itself: the transaction that holds a row lock (SELECT … FOR UPDATE, or SQLite's BEGIN IMMEDIATE, which is for the
// whole file), and PostgreSQL's advisory lock.
//
//	go test ./store -run '^$' -bench Hold -benchtime 2s
func BenchmarkHold(b *testing.B) {
	done := map[string]bool{}
	for _, e := range engines {
		if done[e.dialect] || !chosen(e) {
			continue
		}
		done[e.dialect] = true
		for _, keys := range []int{1, 1000} {
			b.Run(fmt.Sprintf("on=%s/keys=%d/driver=fencedsql", e.name, keys), func(b *testing.B) {
				v := &env{b, e, e.create(b)}
				db := v.open()
				db.SetMaxIdleConns(10)
				locks := v.storeOn(db).Locks("f", time.Minute)
				nothing := func(context.Context, *lease.Lease) error { return nil }
				eight(b, keys, func(ctx context.Context, key int) error {
					return locks.Hold(ctx, fmt.Sprint(key), nothing)
				})
			})
			for how, hold := range bare[e.dialect] {
				b.Run(fmt.Sprintf("on=%s/keys=%d/driver=%s", e.name, keys, how), func(b *testing.B) {
					v := &env{b, e, e.create(b)}
					db := v.open()
					db.SetMaxIdleConns(10)
					v.do("CREATE TABLE bare (id BIGINT PRIMARY KEY)")
					for k := range keys {
						v.do(fmt.Sprintf("INSERT INTO bare VALUES (%d)", k))
					}
					eight(b, keys, func(ctx context.Context, key int) error { return hold(ctx, db, key) })
				})
			}
		}
	}
}

// eight has eight goroutines take keys at random, b.N times together.
func eight(b *testing.B, keys int, hold func(ctx context.Context, key int) error) {
	b.Helper()
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range 8 {
		wg.Go(func() {
			for range (b.N + i) / 8 {
				if err := hold(b.Context(), rand.IntN(keys)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "holds/s")
}

type bareHold = func(ctx context.Context, db *sql.DB, key int) error

var bare = map[string]map[string]bareHold{
	"sqlite": {"immediate": func(ctx context.Context, db *sql.DB, key int) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, "COMMIT")
		return err
	}},
	"postgres": {
		"forupdate": forUpdate("SELECT id FROM bare WHERE id = $1 FOR UPDATE"),
		"advisory": func(ctx context.Context, db *sql.DB, key int) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			h := fnv.New64()
			fmt.Fprint(h, key)
			if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", int64(h.Sum64())); err != nil {
				return err
			}
			_, err = conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(h.Sum64()))
			return err
		},
	},
	"mysql": {"forupdate": forUpdate("SELECT id FROM bare WHERE id = ? FOR UPDATE")},
}

func forUpdate(text string) bareHold {
	return func(ctx context.Context, db *sql.DB, key int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var id int
		if err := tx.QueryRowContext(ctx, text, key).Scan(&id); err != nil {
			return err
		}
		return tx.Commit()
	}
}
