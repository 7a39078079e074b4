package sqlstore

import (
	"context"
	"sync"
)

// turns are the queues of this process, one for each key: whoever has the turn asks the database, and keeps the turn
// while it holds the lease.
type turns struct {
	sync.Mutex
	queues map[turn]*queue
}

// turn is what a queue is for: a key, whose slot is 0, or a semaphore of n, as slot 1.
type turn struct {
	row row
	n   int
}

// queue lets as many through as its channel has room for, in the order of their coming.
type queue struct {
	room  chan struct{}
	users int
}

// enter waits for the turn, until ctx ends or the store is closed. The function it returns gives the turn back, once.
func (t *turns) enter(ctx, open context.Context, key turn) (leave func(), err error) {
	t.Lock()
	if t.queues == nil {
		t.queues = make(map[turn]*queue)
	}
	q := t.queues[key]
	if q == nil {
		q = &queue{room: make(chan struct{}, key.n)}
		t.queues[key] = q
	}
	q.users++
	t.Unlock()
	gone := func() {
		t.Lock()
		defer t.Unlock()
		if q.users--; q.users == 0 {
			delete(t.queues, key)
		}
	}
	select {
	case q.room <- struct{}{}:
		return sync.OnceFunc(func() { <-q.room; gone() }), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-open.Done():
		err = errClosed
	}
	gone()
	return nil, err
}
