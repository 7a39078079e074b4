package bench

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// unfenced are statements that name no fenced table.
var unfenced = []struct{ name, exec, query string }{
	{
		"short",
		`UPDATE notes SET seen = ? WHERE id = 1`,
		`SELECT seen FROM notes WHERE id = ?`,
	},
	{
		"long", // 200 bytes
		`UPDATE notes SET seen = ?` +
			` WHERE id IN (SELECT id FROM notes WHERE seen IS NOT NULL AND id BETWEEN 1000 AND 2000)` +
			` OR id IN (SELECT max(id) FROM notes WHERE seen IS NULL GROUP BY id % 128 HAVING count(*) > 2) `,
		`SELECT n.id, n.seen, count(m.id) FROM notes AS n LEFT JOIN notes AS m ON m.seen = n.seen AND m.id < n.id` +
			` WHERE n.id = ? AND n.seen IS NOT NULL GROUP BY n.id, n.seen HAVING count(*) > 2 ORDER BY n.id `,
	},
}

func passExec(tb testing.TB, ctx context.Context, db *sql.DB, text string) {
	if _, err := db.ExecContext(ctx, text, 1); err != nil {
		tb.Fatal(err)
	}
}

func passQuery(tb testing.TB, ctx context.Context, db *sql.DB, text string) {
	rows, err := db.QueryContext(ctx, text, 1)
	if err != nil {
		tb.Fatal(err)
	}
	if err := rows.Close(); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkPass sends statements that name no fenced table.
func BenchmarkPass(b *testing.B) {
	ctx := context.Background()
	for _, call := range []string{"Exec", "Query"} {
		for _, s := range unfenced {
			text, send := s.exec, passExec
			if call == "Query" {
				text, send = s.query, passQuery
			}
			for _, on := range []struct {
				engine
				tables int
			}{{noop, 1}, {noop, 20}, {memory, 1}} {
				if on.engine == memory && s.name == "long" {
					continue
				}
				ways := []way{}
				for _, wrapper := range []string{"bare", "fencedsql", "sqlmw", "otelsql"} {
					ways = append(ways, way{wrapper, func(b *testing.B) func(int) {
						db := on.open(b, wrapper, tables(on.tables))
						return func(int) { send(b, ctx, db, text) }
					}})
				}
				compare(b, fmt.Sprintf("on=%s/call=%s/text=%s/tables=%d", on.name, call, s.name, on.tables), ways)
			}
		}
	}
}

// BenchmarkPassParallel does it on all processors at once, on a connection each.
func BenchmarkPassParallel(b *testing.B) {
	const calls = 500 // of each goroutine, in a turn of pairs
	procs := runtime.GOMAXPROCS(0)
	open := func(b *testing.B, wrapper string) func() error {
		db := noop.open(b, wrapper, tables(1))
		db.SetMaxIdleConns(2 * procs)
		return func() error {
			_, err := db.ExecContext(context.Background(), unfenced[0].exec, 1)
			return err
		}
	}
	turn := func(send func() error) func(int) {
		return func(int) {
			var wg sync.WaitGroup
			for range procs {
				wg.Go(func() {
					for range calls {
						_ = send()
					}
				})
			}
			wg.Wait()
		}
	}
	for _, wrapper := range []string{"bare", "fencedsql", "sqlmw", "otelsql"} {
		b.Run("on=noop/driver="+wrapper, func(b *testing.B) {
			send := open(b, wrapper)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := send(); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			if wrapper != "bare" && b.N > 1 {
				reportPairs(b, turn(open(b, "bare")), turn(send), procs*calls)
			}
		})
	}
}
