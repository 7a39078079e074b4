// Package sqlstore is a lease store in a database: SQLite, PostgreSQL or MariaDB, through any driver of database/sql. It
// imports none. For MySQL and TiDB see Databases below.
//
//	store, err := sqlstore.Open(ctx, db)
//	summaries := store.Locks("summaries", 15*time.Second)
//	err = summaries.Hold(ctx, chatID, func(ctx context.Context, l *lease.Lease) error {
//		summary, err := summarize(ctx, chatID)
//		if err != nil {
//			return err
//		}
//		_, err = app.ExecContext(ctx, "UPDATE chats SET summary = ? WHERE id = ?", summary, chatID) // fenced: ctx carries l
//		return err
//	})
//
// # The promise of the fence
//
// A later lease of the store has a larger fence, whatever their keys. Later means that it was asked for when the other
// one had been given; of two that were asked for at the same time either may be the larger, but they are never equal.
//
//	two leases of one store                                  larger
//	from any number of processes and connections             always
//	after a crash or a restart of programs or the database   always
//	after the tables were restored from a backup, or a       once a store was opened since, while the database's clock
//	replica that lagged behind took over                     is past the epochs of the leases that are missing
//	the same, after [Store.RaiseAbove]                       always
//
// A database that may forget in a power cut what it had confirmed (synchronous_commit = off; SQLite's synchronous = OFF, or
// NORMAL in WAL mode, go-sqlite3's default there) counts as restored then. A restored store is safe without trusting a clock once RaiseAbove was given the largest fence stored in
// the tables that it fences.
//
// The fence's epoch is in milliseconds: each [Open] raises it to the database's time, or by one if it is there already.
// Its count is counted by the database: on PostgreSQL by a sequence, so that those who take different keys need not wait
// for each other, and the epoch is raised by itself when the server is another or was started since; on the others in
// microseconds, where a lease takes the database's time, or the last count plus one if that is larger. Such fences need
// 128 bits: a table with the encoding lease.Int64 refuses them.
//
// The row of a key stays when its lease is given back: some 150 bytes and the key itself.
//
// A lease from [Store.Semaphore] has no fence.
//
// # Hold or Claim
//
// Hold, of this package, and Claim, of package fencedsql, both give a lease whose fence shuts out those before.
//
//	              Hold                                         Claim
//	is for        work on whatever the key names: many rows,   one row of a fenced table, such as a job of a queue
//	              files, other services
//	at a time     one holder; the others wait                  any number work; the last to claim is the one who can write
//	ends          with its time, unless renewed; the context   never; who is late finds out when a write is refused
//	              says so
//	needs         this store, in any database                  the row's table, and nothing else
//
// A row takes its fences from one of the two only. With [First], Hold raises the fence of given rows at its start, so
// that an older holder is shut out before the new one's first write.
//
// # Clocks
//
// All times in the tables are the database's; what a program thinks the time is changes nothing. A holder counts its
// lease's time with its monotonic clock from before it asked for it, less 1% and a millisecond, so that it ends here before it ends in the
// database, however long the answer took. A process that was stopped finds out when it goes on, and one on a machine that
// was suspended at its next renewal; what it sends before that is what the fence is for.
//
// Setting the database's clock forward ends leases early; their holders' next renewal takes them back, or tells that
// they are lost. Setting it back leaves the leases of dead holders in place for as much longer.
//
// # What it costs
//
// Taking a free key is one statement and one round trip (two on MySQL and MariaDB), and so is giving it back. A store
// has one goroutine, which has all leases renewed, each at a third of its time, eight at once at most; a held lease has
// no goroutine, one timer and about 1 KB.
//
// Of those who wait for a key in one process, one polls (for a semaphore of n, up to n do): a read at most 20 times a
// second, and one small write a second. The others are woken, in their order, when the one before gives its lease back or
// gives up. A lease from TryAcquire has no place in that order: like one of another process it is polled for.
//
// Give the store a [sql.DB] of its own, or one with connections to spare: in a pool whose connections are all busy,
// renewals wait, and leases are lost. For SQLite set a busy timeout, shorter than the leases' time: go-sqlite3 waits for
// that long even if the context has ended. A write transaction in the file, if it is the application's too, keeps
// renewals waiting: one that is longer than the leases' time loses them. A process that is stopped in the middle of a
// write keeps the file locked, and nobody takes or renews a lease there until it goes on or is killed. A file of its own,
// or a server, is better.
//
// # Databases
//
// The tests run it on SQLite, with two drivers, PostgreSQL 15 and 18, with two, and MariaDB 10.11. By their manuals
// SQLite 3.35, PostgreSQL 10 and MariaDB 10.3 have all that it needs, and so have MySQL 8.0 and TiDB, but no test was run
// on these.
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/lease"
)

// A Store gives leases. Its methods may be called from any goroutine. Open one for each database in a program, and
// close it when the program ends.
type Store struct {
	db       *sql.DB
	prepared prepared
	owner    string
	dialect  *dialect
	names    names
	text     statements
	epoch    atomic.Int64 // see draw
	renewer  renewer
	turns    turns
}

// errClosed is a call that came too late.
var errClosed = errors.New("sqlstore: the store is closed")

// Open opens the store in a database, creates its tables if they are not there, and raises its epoch. The database
// remains the caller's, to be closed after the store. After an error a retry is safe.
func Open(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if c.dialect == nil {
		err = persist(ctx, func() (err error) {
			c.dialect, err = ask(ctx, db)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	s := &Store{
		db:      db,
		owner:   cmp.Or(c.owner, defaultOwner()),
		dialect: c.dialect,
		names:   c.names,
		text:    c.dialect.statements(c.names),
	}
	if !c.migrated {
		err = s.Migrate(ctx)
	}
	if err == nil {
		err = s.raise(ctx, s.text.open)
	}
	if err != nil {
		s.prepared.close()
		return nil, err
	}
	s.renewer.start(s)
	return s, nil
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil || !utf8.ValidString(host) {
		host = "unknown"
	}
	return fmt.Sprintf("%.200s/%d", host, os.Getpid())
}

// Close stops renewing and gives no more leases. Those that are held end when their time runs out, here and in the
// database; they can still be released. It breaks off a renewal on its way, and returns nil.
func (s *Store) Close() error {
	s.renewer.stop()
	s.prepared.close()
	return nil
}

// RaiseAbove makes the fence of every later lease larger than f, and is how a store restored from a backup is made safe:
// f is then the largest fence stored in the fenced tables. Later are the leases of calls that begin when RaiseAbove has
// returned, from any store. The error wraps [lease.ErrOverflow] if there is no epoch above f's; nothing was written
// then. A retry is safe.
func (s *Store) RaiseAbove(ctx context.Context, f lease.Fence) error {
	if f.Epoch >= maxEpoch {
		return fmt.Errorf("%w: the store's epochs end at %d, and that of %v is %d", lease.ErrOverflow, uint64(maxEpoch), f, f.Epoch)
	}
	return s.raise(ctx, s.text.raise, int64(f.Epoch+1))
}

// maxEpoch leaves room for those who open the store afterwards, each of whom raises the epoch.
const maxEpoch = math.MaxInt64 - 1<<32

// errEpoch is that the row of the epoch was not there to be changed.
func (s *Store) errEpoch() error {
	also := ""
	if s.dialect.commits != "" {
		also = ", or the connection does not commit by itself (autocommit is off: leave it out of the DSN)"
	}
	return fmt.Errorf("the table %s is empty or of another version of this package%s", s.names.epoch(s.dialect), also)
}

// raise runs a statement on the row of the epoch.
func (s *Store) raise(ctx context.Context, text string, args ...any) error {
	err := persist(ctx, func() error {
		n, err := s.exec(ctx, text, args...)
		if err == nil && n != 1 {
			err = s.errEpoch()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sqlstore: raising the epoch: %w", err)
	}
	return nil
}
