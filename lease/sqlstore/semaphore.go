package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencedsql/fencedsql/lease"
)

// Semaphore gives up to n leases at once, under one name. They have no fence, since a later one does not shut out an
// earlier one: a fenced write under one of them is refused.
type Semaphore struct {
	store *Store
	name  string
	n     int
	ttl   time.Duration
	err   error
}

// Semaphore returns the semaphore of that name. Where programs disagree about n, there are as many leases as the largest
// of them says. It has nothing to do with a [Store.Locks] of the same name. A name that is no key, an n below 1 or above
// 10,000, or a ttl below 10 ms, is an error of each call.
func (s *Store) Semaphore(name string, n int, ttl time.Duration) *Semaphore {
	err := errors.Join(checkKey("the name", name), checkTTL(ttl))
	if n < 1 || n > 10_000 {
		err = errors.Join(err, fmt.Errorf("sqlstore: a semaphore of %d, not of 1 to 10,000", n))
	}
	return &Semaphore{s, name, n, ttl, err}
}

// TryAcquire takes a lease, or returns a [*HeldError] at once if n others have theirs: it names the one that ends first.
// See [Locks.TryAcquire].
func (s *Semaphore) TryAcquire(ctx context.Context) (*Held, error) {
	if s.err != nil {
		return nil, s.err
	}
	c := s.claim()
	var h *Held
	err := persist(ctx, func() (err error) {
		if h, err = c.try(ctx); errors.Is(err, lease.ErrHeld) { // that one of n
			h, err = c.poll(ctx)
		}
		return err
	})
	if err != nil {
		c.forget(ctx)
		return nil, c.wrap(err)
	}
	return h, nil
}

// Acquire takes a lease and waits for it as long as ctx allows. See [Locks.Acquire]; but stores do not take turns here,
// and one that takes a lease again as soon as it gave it back may keep it from the others. Nor does it notice that it
// waits for the Hold that it is called in.
func (s *Semaphore) Acquire(ctx context.Context) (*Held, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.store.wait(ctx, s.claim(), s.n)
}

// Hold waits for a lease and calls f under it. See [Locks.Hold].
func (s *Semaphore) Hold(ctx context.Context, f func(ctx context.Context, l *lease.Lease) error, opts ...HoldOption) error {
	h, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return h.run(ctx, f, opts)
}

func (s *Semaphore) claim() *claim {
	c := &claim{store: s.store, row: row{s.name, "", 1 + rand.IntN(s.n)}, name: s.name, token: newToken(), ttl: s.ttl}
	c.poll = func(ctx context.Context) (*Held, error) { return s.poll(ctx, c) }
	return c
}

// poll looks which slots are free, and takes one of them. Another may be faster, but not for ever.
func (s *Semaphore) poll(ctx context.Context, c *claim) (*Held, error) {
	for range 10 {
		if !c.sent { // else the slot may be its own: the answer to the last try was late, or an error
			free, first, err := s.look(ctx)
			if err != nil {
				return nil, err
			}
			if len(free) == 0 {
				return nil, first
			}
			c.row.slot = free[rand.IntN(len(free))]
		}
		h, err := c.try(ctx)
		if !errors.Is(err, lease.ErrHeld) {
			return h, err
		}
	}
	return nil, errOvertaken
}

// look returns the slots that are free, and the lease among the others that ends first.
func (s *Semaphore) look(ctx context.Context) (free []int, first *HeldError, err error) {
	busy := make(map[int]bool)
	err = s.store.rows(ctx, s.store.text.busy, []any{[]byte(s.name), []byte("")}, func(rows *sql.Rows) error {
		var slot int
		var owner []byte
		var left int64
		if err := rows.Scan(&slot, &owner, &left); err != nil || slot < 1 || slot > s.n {
			return err
		}
		busy[slot] = true
		if until := time.Now().Add(micros(left)); first == nil || until.Before(first.Until) {
			first = &HeldError{Key: s.name, Owner: string(owner), Until: until}
		}
		return nil
	})
	for slot := 1; slot <= s.n; slot++ {
		if !busy[slot] {
			free = append(free, slot)
		}
	}
	return free, first, err
}
