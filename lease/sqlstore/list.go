package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/fencedsql/fencedsql/lease"
)

// Info is a lease as [Store.List] found it.
type Info struct {
	Name  string      // of the Locks or Semaphore
	Key   string      // "" if a semaphore's
	Slot  int         // a semaphore's, from 1; 0 of locks
	Fence lease.Fence // zero if a semaphore's
	Owner string
	Since time.Time // by this machine's clock, like Until
	Until time.Time
}

// List returns the leases that are held, ordered by Name, Key and Slot.
func (s *Store) List(ctx context.Context) (list []Info, err error) {
	err = persist(ctx, func() error {
		list, err = s.list(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sqlstore: List: %w", err)
	}
	return list, nil
}

func (s *Store) list(ctx context.Context) (list []Info, err error) {
	now := time.Now()
	err = s.rows(ctx, s.text.list, nil, func(rows *sql.Rows) error {
		var name, key, owner []byte
		var epoch, count, since, until int64
		var i Info
		if err := rows.Scan(&name, &key, &i.Slot, &epoch, &count, &owner, &since, &until); err != nil {
			return err
		}
		i.Name, i.Key, i.Owner = string(name), string(key), string(owner)
		if i.Slot == 0 {
			i.Fence = lease.Fence{Epoch: uint64(epoch), Count: uint64(count)}
		}
		i.Since, i.Until = now.Add(-micros(since)), now.Add(micros(until))
		list = append(list, i)
		return nil
	})
	return list, err
}

// micros is a duration of the database, which counts in microseconds, held to what a time.Duration can be.
func micros(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(max(-most, min(n, most))) * time.Microsecond
}
