package sqlstore

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedsql/fencedsql/lease"
)

// Held is a lease of the store, which renews it until Release is called, the lease is lost or the store is closed.
type Held struct {
	*lease.Lease
	store *Store
	row   row
	fence lease.Fence // a semaphore's too
	ttl   time.Duration
	leave func() // gives the turn back; nil if there is none

	mu       sync.Mutex
	deadline time.Time   // when the lease ends here, on the monotonic clock
	expiry   *time.Timer // ends it then

	release  sync.Mutex
	ended    bool  // by Release
	lost     error // what the lease was when Release ended it
	released bool

	due   time.Time // of the next renewal; like index, for the renewer
	index int       // in the renewer's heap, -1 if not in it
}

// Why a lease ended.
var (
	errReleased = errors.New("released")
	errExpired  = errors.New("not renewed in time")
	errTaken    = errors.New("it ran out and another may have it, or it was freed in the store")
)

// errLate is an answer that came when its lease was over.
var errLate = errors.New("the database's answer took longer than the time to live")

// lifetime is how long a lease lasts here, from before it was asked for: less than in the database by what two clocks
// may drift apart, and by what SQLite's, which counts milliseconds, may be behind.
func lifetime(ttl time.Duration) time.Duration { return ttl - ttl/100 - time.Millisecond }

// Release ends the lease's contexts and gives the lease back. It acts on this lease only: when another has the key by
// now, that one's lease stays. The error wraps [lease.ErrLost] if the lease was lost before Release was called; after any
// other error, such as that of a ctx that has ended, the key is taken until the lease runs out, or until another call
// succeeds: that one returns nil, also if it finds that the lease is over, which the failed call may have done. Once the
// database has answered a call, later ones do nothing and return nil.
func (h *Held) Release(ctx context.Context) error {
	h.release.Lock()
	defer h.release.Unlock()
	if h.released {
		return nil
	}
	again := h.ended
	if !again {
		h.ended, h.lost = true, h.Err()
		h.Lose(errReleased) // first, so that a renewal on its way does not put it back into the heap
		h.store.renewer.drop(h)
		h.expiry.Stop()
	}
	if h.leave != nil {
		defer h.leave() // whoever is next in this process finds the row free
	}

	var n int64
	err := persist(ctx, func() (err error) {
		n, err = h.store.exec(ctx, h.store.text.release, h.row.of(h.fence)...)
		return err
	})
	h.released = err == nil
	switch {
	case h.lost != nil:
		return h.lost
	case err != nil:
		return fmt.Errorf("sqlstore: releasing %q: %w", h.Key(), err)
	case n == 0 && !again: // else the answer to an earlier call was lost, or the lease has run out since
		return fmt.Errorf("%w (key %q): %w", lease.ErrLost, h.Key(), errTaken)
	}
	return nil
}

// lose ends a lease that was not released.
func (h *Held) lose(reason error) {
	h.Lose(reason)
	h.store.renewer.drop(h)
	h.expiry.Stop()
	if h.leave != nil {
		h.leave()
	}
}

// expire is called by the timer.
func (h *Held) expire() {
	h.mu.Lock()
	over := !time.Now().Before(h.deadline)
	h.mu.Unlock()
	if over {
		h.lose(errExpired)
	}
}

// extend moves the deadline after a renewal that was sent then.
func (h *Held) extend(sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = sent.Add(lifetime(h.ttl))
	h.expiry.Reset(time.Until(h.deadline))
}

func (h *Held) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// releaseTimeout is how long Hold tries to give a lease back.
const releaseTimeout = 5 * time.Second

// run is what Hold does with a lease.
func (h *Held) run(ctx context.Context, f func(context.Context, *lease.Lease) error, opts []HoldOption) (err error) {
	defer func() { // after a panic too, which goes on
		lost := h.Err()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if e := h.Release(ctx); lost == nil && errors.Is(e, lease.ErrLost) {
			lost = e
		}
		if lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	var o holding
	for _, option := range opts {
		option(&o)
	}
	under := context.WithValue(h.Context(ctx), heldBy{h.store, h.row}, h)
	if o.first != nil {
		if err := o.first(under); err != nil {
			return err
		}
	}
	return f(under, h.Lease)
}

// renewer renews the leases of a store.
type renewer struct {
	store *Store
	ctx   context.Context // of the renewals
	end   context.CancelFunc
	wake  chan struct{} // has room for one: the heap has changed
	tasks sync.WaitGroup

	mu       sync.Mutex
	heap     dueHeap // none that is being renewed
	renewing int
	stopped  bool
}

// atOnce is how many renewals may be on their way: one that hangs must not keep the others waiting.
const atOnce = 8

// longestRenewal keeps those that hang from taking all the places for long.
const longestRenewal = 5 * time.Second

func (r *renewer) start(s *Store) {
	r.store = s
	r.ctx, r.end = context.WithCancel(context.Background())
	r.wake = make(chan struct{}, 1)
	r.tasks.Go(r.run)
}

func (r *renewer) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.end()
	r.tasks.Wait()
}

// background runs f beside the renewals. Close waits for it, unless it came first.
func (r *renewer) background(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		go f()
	} else {
		r.tasks.Go(f)
	}
}

func (r *renewer) closed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return errClosed
	}
	return nil
}

// hold makes the lease that a claim has taken and has it renewed.
func (r *renewer) hold(c *claim, sent time.Time, f lease.Fence) (*Held, error) {
	shown := f
	if c.row.slot != 0 {
		shown = lease.Fence{}
	}
	h := &Held{
		Lease:    lease.New(c.name, shown),
		store:    c.store,
		row:      c.row,
		fence:    f,
		ttl:      c.ttl,
		leave:    c.leave,
		deadline: sent.Add(lifetime(c.ttl)),
		due:      sent.Add(c.ttl / 3),
		index:    -1,
	}
	left := time.Until(h.deadline)
	if left <= 0 {
		return nil, errLate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errClosed
	}
	h.mu.Lock() // the timer may be faster
	h.expiry = time.AfterFunc(left, h.expire)
	h.mu.Unlock()
	r.push(h)
	return h, nil
}

func (r *renewer) push(h *Held) {
	heap.Push(&r.heap, h)
	if h.index == 0 {
		r.rouse()
	}
}

func (r *renewer) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// drop has a lease renewed no more.
func (r *renewer) drop(h *Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.index >= 0 {
		heap.Remove(&r.heap, h.index)
	}
}

// run is the store's goroutine.
func (r *renewer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		case <-r.ctx.Done():
			return
		}
		timer.Reset(r.next())
	}
}

// next begins the renewals that are due and returns when to come back.
func (r *renewer) next() time.Duration {
	const long = time.Hour
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.heap) > 0 && r.renewing < atOnce && !r.stopped {
		if d := time.Until(r.heap[0].due); d > 0 {
			return d
		}
		h := heap.Pop(&r.heap).(*Held)
		if h.Err() != nil { // by a call of Lose
			r.tasks.Go(func() { h.lose(nil) })
			continue
		}
		r.renewing++
		r.tasks.Go(func() { r.renew(h) })
	}
	return long // or when one of those on their way is back
}

// renew sends one renewal, and puts the lease back into the heap unless it is lost.
func (r *renewer) renew(h *Held) {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, min(h.until().Sub(sent), max(h.ttl/4, 100*time.Millisecond), longestRenewal))
	defer cancel()
	n, err := r.store.exec(ctx, r.store.text.renew, h.row.of(h.fence, h.ttl.Microseconds())...)
	switch {
	case err != nil: // until the deadline
		h.due = time.Now().Add(jitter(min(max(h.ttl/20, time.Millisecond), time.Second)))
	case n == 0:
		h.lose(errTaken)
	default:
		h.due = sent.Add(h.ttl / 3)
		if h.Err() == nil {
			h.extend(sent)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewing--
	if h.Err() == nil {
		r.push(h)
	}
	r.rouse()
}

// dueHeap is a heap of leases by their next renewal.
type dueHeap []*Held

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *dueHeap) Push(x any) {
	h := x.(*Held)
	h.index = len(*d)
	*d = append(*d, h)
}

func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	h.index = -1
	return h
}
