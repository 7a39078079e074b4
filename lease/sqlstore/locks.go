package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/lease"
)

const (
	maxKey   = 512 // bytes of a key, and of the name of a Locks or Semaphore
	maxOwner = 255
	minTTL   = 10 * time.Millisecond
	maxTTL   = 10 * 365 * 24 * time.Hour
)

// HeldError tells who holds a key. It wraps [lease.ErrHeld]: nothing was written and a retry is safe.
type HeldError struct {
	Key   string
	Owner string    // "" if the key is free, but promised to one who waits for it
	Until time.Time // by this machine's clock: when the lease or the promise runs out, if it is not renewed
}

func (e *HeldError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("%v: key %q is promised to one who waits for it", lease.ErrHeld, e.Key)
	}
	return fmt.Sprintf("%v: key %q by %s until %s", lease.ErrHeld, e.Key, e.Owner, e.Until.Format(time.RFC3339Nano))
}

func (e *HeldError) Unwrap() error { return lease.ErrHeld }

// Locks is a family of keys, each with one lease at a time. Keys of two families have nothing to do with each other.
type Locks struct {
	store *Store
	name  string
	ttl   time.Duration
	err   error
}

// Locks returns the family of keys of that name, with the time that their leases live without being renewed. Programs
// may open one family with different times. A name that is no key, or a ttl below 10 ms, is an error of each call.
func (s *Store) Locks(name string, ttl time.Duration) *Locks {
	return &Locks{s, name, ttl, errors.Join(checkKey("the name", name), checkTTL(ttl))}
}

func checkKey(what, key string) error {
	if !utf8.ValidString(key) || len(key) > maxKey {
		return fmt.Errorf("sqlstore: %s %.80q is not UTF-8 of at most %d bytes", what, key, maxKey)
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("sqlstore: a time to live of %v is not between %v and ten years", ttl, minTTL)
	}
	return nil
}

// TryAcquire takes the key's lease, or returns a [*HeldError] at once if another has it; it waits only for a database that
// is busy, ten seconds at most. The lease is renewed until it is released; ctx ending later does not end it. After an error
// that is not ErrHeld a retry is safe, but the key may be taken until the ttl is over.
func (l *Locks) TryAcquire(ctx context.Context, key string) (*Held, error) {
	if err := errors.Join(l.err, checkKey("key", key)); err != nil {
		return nil, err
	}
	c := l.claim(key)
	var h *Held
	err := persist(ctx, func() (err error) {
		h, err = c.try(ctx)
		return err
	})
	if err != nil {
		c.forget(ctx)
		return nil, c.wrap(err)
	}
	return h, nil
}

// Acquire takes the key's lease and waits for it as long as ctx allows. Those who wait in one store get it in the
// order of their coming, and stores take turns. The lease is renewed until it is released; ctx ending later does not
// end it. If ctx ends first, the error wraps its cause, and the [*HeldError] if there was one. Another error of the
// database, such as a lost connection, ends the waiting too. A retry is safe, but after a lost connection the key may be
// taken until the ttl is over.
//
// In a Hold of the same key, whose context ctx is or comes from, it returns an error that wraps [lease.ErrHeld] at once: it
// would wait for itself.
func (l *Locks) Acquire(ctx context.Context, key string) (*Held, error) {
	if err := errors.Join(l.err, checkKey("key", key)); err != nil {
		return nil, err
	}
	c := l.claim(key)
	if h, _ := ctx.Value(heldBy{l.store, c.row}).(*Held); h != nil && h.Err() == nil {
		return nil, c.wrap(fmt.Errorf("%w: by the Hold whose context this is; use its lease", lease.ErrHeld))
	}
	return l.store.wait(ctx, c, 1)
}

// heldBy is the key of a context's [*Held], which Hold gave it.
type heldBy struct {
	store *Store
	row   row
}

// A HoldOption is a setting of Hold.
type HoldOption func(*holding)

type holding struct{ first func(context.Context) error }

// First makes Hold call f, with the lease in its context, before the callback; if f fails, Hold releases the lease and
// returns its error. It is the place to raise the fence of the rows that the lease is for, so that an older holder is
// shut out before the first write:
//
//	sqlstore.First(func(ctx context.Context) error { return fencedsql.Raise(ctx, app, "chats", chatID) })
func First(f func(ctx context.Context) error) HoldOption {
	return func(h *holding) { h.first = f }
}

// Hold waits for the key as Acquire does, calls f with the lease in its context, renews it at each third of its time,
// and releases it when f has returned or panicked. When the lease is lost, f's context ends with a [context.Cause] that
// wraps [lease.ErrLost].
//
// It returns f's error, joined with one that wraps ErrLost if the lease was lost before f returned: what f wrote with a
// fence was then refused if it came too late, and the rest was not. A release that fails otherwise is not an error:
// the lease runs out.
func (l *Locks) Hold(ctx context.Context, key string, f func(ctx context.Context, l *lease.Lease) error, opts ...HoldOption) error {
	h, err := l.Acquire(ctx, key)
	if err != nil {
		return err
	}
	return h.run(ctx, f, opts)
}

// claim is one caller's try, or many, to get one lease.
type claim struct {
	store *Store
	row   row
	name  string // the lease's key
	token []byte // finds the own lease again when an answer was lost
	ttl   time.Duration
	poll  func(ctx context.Context) (*Held, error)
	// waiting is whether the row may hold the promise that this claim is next.
	waiting bool
	// sent is whether a statement that takes the lease may have reached the database.
	sent bool
	// overtaken counts the tries that found the key free and could not take it.
	overtaken int
	// leave gives the claim's turn back; nil if it has none.
	leave func()
}

// row is the primary key of the store's table of leases. slot is 0 for locks.
type row struct {
	family, name string
	slot         int
}

func (r row) args(before ...any) []any {
	return append(before, []byte(r.family), []byte(r.name), int64(r.slot))
}

// of are the arguments for the row with that fence.
func (r row) of(f lease.Fence, before ...any) []any {
	return append(r.args(before...), int64(f.Epoch), int64(f.Count))
}

func newToken() []byte {
	token := make([]byte, 16)
	rand.Read(token) // which never fails
	return token
}

func (l *Locks) claim(key string) *claim {
	c := &claim{store: l.store, row: row{l.name, key, 0}, name: key, token: newToken(), ttl: l.ttl}
	c.poll = c.pollLock
	return c
}

// try takes the row's lease, or returns a *HeldError.
func (c *claim) try(ctx context.Context) (*Held, error) {
	s := c.store
	if err := s.renewer.closed(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	c.sent = true
	f, err := c.take(ctx)
	switch {
	case err != nil:
		return nil, err
	case !f.IsZero():
		return s.renewer.hold(c, sent, f)
	}
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(seen.token, c.token) {
		c.sent = false // another's token is there: ours has not come through
	}
	if !seen.free(c) {
		return nil, seen.heldError(c)
	}
	if c.overtaken++; c.overtaken%5 == 0 {
		// No coincidence: the row is newer than what counts, such as after a restore of some of the tables.
		if err := s.RaiseAbove(ctx, lease.Fence{Epoch: uint64(seen.epoch), Count: uint64(seen.count)}); err != nil {
			return nil, err
		}
	}
	return nil, errOvertaken
}

// take takes the row's lease. If ctx ends before the answer is there, the lease that it may bring is given back then:
// the driver would only stop waiting, and the statement may go through later.
func (c *claim) take(ctx context.Context) (lease.Fence, error) {
	s := c.store
	if ctx.Done() == nil {
		return s.take(ctx, c)
	}
	type answer struct {
		fence lease.Fence
		err   error
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	came, late := make(chan answer, 1), *c
	go func() {
		f, err := s.take(own, &late)
		came <- answer{f, err}
	}()
	select {
	case a := <-came:
		cancel()
		return a.fence, a.err
	case <-ctx.Done():
	}
	c.sent = false // that is late's now
	s.renewer.background(func() {
		defer cancel()
		defer time.AfterFunc(releaseTimeout, cancel).Stop()
		defer context.AfterFunc(s.renewer.ctx, cancel)()
		switch a := <-came; {
		case a.err != nil:
			late.forget(ctx)
		case !a.fence.IsZero():
			persist(own, func() error { // an error leaves the row as forget does
				_, err := s.exec(own, s.text.release, late.row.of(a.fence)...)
				return err
			})
		}
	})
	return lease.Fence{}, context.Cause(ctx)
}

// errOvertaken is a key that was given to another, and back, while this claim's fence was on its way.
var errOvertaken = errors.New("others were faster")

// take returns the fence of the row's lease if it could be taken.
func (s *Store) take(ctx context.Context, c *claim) (lease.Fence, error) {
	if s.text.draw != "" {
		return s.drawAndTake(ctx, c)
	}
	var epoch, count int64
	args := append(c.row.args(), c.token, []byte(s.owner), c.ttl.Microseconds(), []byte{})
	_, err := s.query(ctx, s.text.take, args, &epoch, &count)
	if s.text.reopen != "" && sqlState(err) == notNull { // the server was started since, or another took over
		if _, err = s.exec(ctx, s.text.reopen); err == nil {
			_, err = s.query(ctx, s.text.take, args, &epoch, &count)
		}
	}
	return lease.Fence{Epoch: uint64(epoch), Count: uint64(count)}, err
}

const notNull = "23502"

// drawAndTake is take in two statements.
func (s *Store) drawAndTake(ctx context.Context, c *claim) (lease.Fence, error) {
	none := lease.Fence{}
	epoch, count, err := s.draw(ctx)
	if err != nil {
		return none, err
	}
	args := append(c.row.args(), epoch, count, c.token, []byte(s.owner), c.ttl.Microseconds(), []byte{})
	res, err := s.send(ctx, s.text.take, args...)
	if err != nil {
		return none, err
	}
	if id, err := res.LastInsertId(); err != nil || id != count {
		return none, err
	}
	return lease.Fence{Epoch: uint64(epoch), Count: uint64(count)}, nil
}

// draw counts one lease. What counts is the epoch in the database; the store's own saves reading it.
func (s *Store) draw(ctx context.Context) (epoch, count int64, err error) {
	for range 10 {
		epoch = s.epoch.Load()
		res, err := s.send(ctx, s.text.draw, epoch)
		if err != nil {
			return 0, 0, err
		}
		if n, err := res.RowsAffected(); err != nil {
			return 0, 0, err
		} else if n == 1 {
			count, err = res.LastInsertId()
			return epoch, count, err
		}
		var now int64
		found, err := s.query(ctx, s.text.epoch, nil, &now)
		if err != nil {
			return 0, 0, err
		}
		if !found || now == epoch {
			return 0, 0, s.errEpoch()
		}
		s.epoch.Store(now)
	}
	return 0, 0, errOvertaken // others raise it again and again
}

// seen is what a row held.
type seen struct {
	epoch, count  int64
	token, waiter []byte
	owner         []byte
	left, waits   time.Duration // of the lease and of the promise to the waiter; not positive if over
}

func (c *claim) look(ctx context.Context) (*seen, error) {
	s := c.store
	var v seen
	var left, waits int64
	found, err := s.query(ctx, s.text.look, c.row.args(), &v.epoch, &v.count, &v.token, &v.owner, &left, &v.waiter, &waits)
	if err == nil && !found {
		err = fmt.Errorf("the row of key %q is gone: rows of %s must not be deleted", c.name, s.names.leases(s.dialect))
	}
	v.left, v.waits = micros(left), micros(waits)
	return &v, err
}

// free is whether that claim could have the row.
func (v *seen) free(c *claim) bool {
	return bytes.Equal(v.token, c.token) || v.left <= 0 && (v.waits <= 0 || bytes.Equal(v.waiter, c.token))
}

func (v *seen) heldError(c *claim) *HeldError {
	e := &HeldError{Key: c.name, Owner: string(v.owner), Until: time.Now().Add(v.left)}
	if v.left <= 0 && v.waits > 0 {
		e.Owner, e.Until = "", time.Now().Add(v.waits)
	}
	return e
}

// pollLock looks whether the row is free, and takes it then. Otherwise it has the row promised to this claim, unless it is
// promised to another. Without that, a process that takes the key again as soon as it gave it back would never let
// another one in, which finds the key free only if it happens to look in between.
func (c *claim) pollLock(ctx context.Context) (*Held, error) {
	v, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	own := bytes.Equal(v.waiter, c.token)
	switch {
	case v.free(c):
		return c.try(ctx)
	case own && v.waits < promise/2, !own && v.waits <= 0:
		c.waiting = true
		s := c.store
		if _, err := s.exec(ctx, s.text.wait, append(c.row.args(c.token, promise.Microseconds()), c.token)...); err != nil {
			return nil, err
		}
	}
	return nil, v.heldError(c)
}

// forget takes back what a claim that failed may have left in the row.
func (c *claim) forget(ctx context.Context) {
	if !c.sent && !c.waiting {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	// An error leaves the row like that of a holder who died.
	persist(ctx, func() error {
		_, err := c.store.exec(ctx, c.store.text.forget, append(c.row.args(c.token, c.token), c.token, c.token)...)
		return err
	})
}

// wrap says what failed. A *HeldError says it itself.
func (c *claim) wrap(err error) error {
	if _, ok := err.(*HeldError); ok {
		return err
	}
	return fmt.Errorf("sqlstore: acquiring %q: %w", c.name, err)
}

const (
	fastestPoll = 50 * time.Millisecond // 20 times a second
	slowestPoll = 400 * time.Millisecond
	// promise is how long a row waits for the one who is next, who renews the promise while it lives.
	promise = 2 * time.Second
)

// wait tries until it has the lease, among n of this process at once.
func (s *Store) wait(ctx context.Context, c *claim, n int) (h *Held, err error) {
	key := row{c.row.family, c.row.name, min(c.row.slot, 1)}
	if c.leave, err = s.turns.enter(ctx, s.renewer.ctx, turn{key, n}); err != nil {
		return nil, c.wrap(err)
	}
	h, err = c.try(ctx)
	var held *HeldError // the last one
	for pace := fastestPoll; err != nil; h, err = c.poll(ctx) {
		if e := s.renewer.closed(); e != nil {
			err = e
		}
		if !errors.As(err, &held) && !transient(err) && !errors.Is(err, errLate) {
			break
		}
		sleep := jitter(pace)
		if held != nil { // perhaps soon to run out
			sleep = max(min(sleep, time.Until(held.Until)+time.Millisecond), fastestPoll)
		}
		if pause(ctx, sleep) != nil {
			break
		}
		pace = min(pace*3/2, slowestPoll)
		if c.waiting { // be there when the key becomes free
			pace = fastestPoll
		}
	}
	if err != nil {
		c.forget(ctx)
		c.leave()
		if cause := context.Cause(ctx); cause != nil {
			if err = cause; held != nil {
				err = fmt.Errorf("%w: %w", cause, held)
			}
		}
		return nil, c.wrap(err)
	}
	return h, nil
}
