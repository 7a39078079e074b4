package bench

import (
	"context"
	"database/sql"
	"os"
	"strconv"
	"testing"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/integration/servers"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }

// server is an engine on loopback and how its texts are written there.
type server struct {
	name   string
	get    func(ctx context.Context) (*servers.Server, error)
	params []string
	create string
	// The write as the program has it, fenced by hand, and the usual way: the
	// row is locked and read, compared in the program, and written.
	text, byHand, lock, write string
	// byHandArgs puts the arguments of byHand in its order.
	byHandArgs func(summary, id any) []any
}

var onLoopback = []server{
	{
		name: "postgres", get: servers.Postgres,
		create: `CREATE TABLE chats (id integer PRIMARY KEY, summary text, summary_fence varchar(40) NOT NULL)`,
		text:   `UPDATE chats SET summary = $1 WHERE id = $2`,
		byHand: `UPDATE chats SET summary = $1, summary_fence = $3 WHERE (id = $2) AND summary_fence < $4`,
		lock:   `SELECT summary_fence FROM chats WHERE id = $1 FOR UPDATE`,
		write:  `UPDATE chats SET summary = $1, summary_fence = $2 WHERE id = $3`,
		byHandArgs: func(summary, id any) []any {
			return []any{summary, id, fence, bound}
		},
	},
	{
		name: "mariadb", get: servers.MariaDB, params: []string{"interpolateParams=true"},
		create: `CREATE TABLE chats (id INT PRIMARY KEY, summary VARCHAR(200), summary_fence CHAR(40) CHARACTER SET ascii NOT NULL)`,
		text:   `UPDATE chats SET summary = ? WHERE id = ?`,
		byHand: `UPDATE chats SET summary = ?, summary_fence = ? WHERE (id = ?) AND summary_fence < ?`,
		lock:   `SELECT summary_fence FROM chats WHERE id = ? FOR UPDATE`,
		write:  `UPDATE chats SET summary = ?, summary_fence = ? WHERE id = ?`,
		byHandArgs: func(summary, id any) []any {
			return []any{summary, fence, id, bound}
		},
	},
}

// BenchmarkServer makes the pinned UPDATE on real servers over loopback, which
// do not wait for a disk: what a network and a disk add makes all ways more alike.
func BenchmarkServer(b *testing.B) {
	for _, s := range onLoopback {
		running, err := s.get(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		dsn := running.DSN(running.Database(b), s.params...)
		bare, err := sql.Open(running.Driver(), dsn)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { bare.Close() })
		fenced, err := fencedsql.Open(running.Driver(), dsn, fencedsql.WithTables(tables(1)...))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { fenced.Close() })
		for _, text := range []string{s.create, `INSERT INTO chats VALUES (1, '', '')`} {
			if _, err := bare.Exec(text); err != nil {
				b.Fatal(err)
			}
		}
		ctx := holder.Context(context.Background())
		// A new value each time: MariaDB counts only rows that change.
		n := 0
		summary := func(int) string { n++; return strconv.Itoa(n) }
		send := func(way func(i int) error) func(b *testing.B) func(i int) {
			return func(b *testing.B) func(i int) {
				return func(i int) {
					if err := way(i); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		compare(b, "on="+s.name+"/write=pinned", []way{
			{"byhand", send(func(i int) error {
				res, err := bare.ExecContext(ctx, s.byHand, s.byHandArgs(summary(i), 1)...)
				if err != nil {
					return err
				}
				_, err = res.RowsAffected()
				return err
			})},
			{"fencedsql", send(func(i int) error {
				_, err := fenced.ExecContext(ctx, s.text, summary(i), 1)
				return err
			})},
			{"locked", send(func(i int) error {
				tx, err := bare.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				var stored string
				if err := tx.QueryRowContext(ctx, s.lock, 1).Scan(&stored); err != nil {
					return err
				}
				if stored > fence {
					return fencedsql.ErrFenced
				}
				if _, err := tx.ExecContext(ctx, s.write, summary(i), fence, 1); err != nil {
					return err
				}
				return tx.Commit()
			})},
		})
	}
}
