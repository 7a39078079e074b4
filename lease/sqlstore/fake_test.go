package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

// fake is a database in memory that knows the store's statements, for tests on synctest's clock. Its own clock may be
// off by as much as one likes.
type fake struct {
	off  time.Duration // of the database's clock
	text statements

	mu    sync.Mutex
	fault func(ctx context.Context, text string) error
	slow  func(ctx context.Context, text string) error
	epoch int64
	drawn int64 // the last counter
	table map[row]*record
	count map[string]int // of the statements, by text
	ends  time.Time      // see last
}

type record struct {
	epoch, count, began, ends, waits int64
	token, owner, waiter             []byte
}

func newFake() *fake {
	d, _ := dialectNamed("postgres")
	return &fake{text: d.statements(names{prefix: "fencedsql_"}), table: map[row]*record{}, count: map[string]int{}}
}

// open opens a store as a process of its own would.
func (f *fake) open(t testing.TB, owner string) *Store {
	t.Helper()
	db := sql.OpenDB(f)
	s, err := Open(t.Context(), db, WithDialect("postgres"), WithOwner(owner))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	return s
}

func (f *fake) sent(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[text]
}

// last is when the last lease to be granted or renewed ends.
func (f *fake) last() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends
}

// live is how many leases the table holds.
func (f *fake) live() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.table {
		if r.ends > f.now() {
			n++
		}
	}
	return n
}

// change changes a row behind the store's back.
func (f *fake) change(key row, change func(r *record)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.table[key])
}

// before sets what happens to each statement before it is run.
func (f *fake) before(fault func(ctx context.Context, text string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *fake) now() int64 { return time.Now().Add(f.off).UnixMicro() }

// after sets what happens to each answer on its way.
func (f *fake) after(slow func(ctx context.Context, text string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = slow
}

// run sends one statement and waits for the answer.
func (f *fake) run(ctx context.Context, text string, args []driver.NamedValue) (rows [][]driver.Value, n int64, err error) {
	f.mu.Lock()
	f.count[text]++
	fault, slow := f.fault, f.slow
	f.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, text); err != nil {
			return nil, 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	rows, n, err = f.answer(text, args)
	if slow != nil {
		if err := slow(ctx, text); err != nil {
			return nil, 0, err
		}
	}
	return rows, n, err
}

// answer answers one statement with rows or the number of those that changed.
func (f *fake) answer(text string, args []driver.NamedValue) (rows [][]driver.Value, n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	number := func(i int) int64 { return args[i].Value.(int64) }
	bytes := func(i int) []byte { return args[i].Value.([]byte) }
	at := func(i int) *record { return f.table[row{string(bytes(i)), string(bytes(i + 1)), int(number(i + 2))}] }
	now := f.now()
	granted := func(r *record) { f.ends = time.UnixMicro(r.ends).Add(-f.off) }
	switch t := f.text; text {
	case t.check:
		return [][]driver.Value{{int64(version)}}, 0, nil
	case t.open:
		f.epoch = max(f.epoch+1, now/1000)
		return nil, 1, nil
	case t.take:
		key := row{string(bytes(0)), string(bytes(1)), int(number(2))}
		r := f.table[key]
		if r == nil {
			r = &record{}
			f.table[key] = r
		}
		f.drawn++
		own := string(r.waiter) == string(bytes(3))
		if string(r.token) != string(bytes(3)) && (r.ends > now || r.waits > now && !own) {
			return nil, 0, nil
		}
		if own {
			r.waits = 0
		}
		r.epoch, r.count = f.epoch, f.drawn
		r.token, r.owner, r.began, r.ends = bytes(3), bytes(4), now, now+number(5)
		granted(r)
		return [][]driver.Value{{r.epoch, r.count}}, 1, nil
	case t.look:
		if r := at(0); r != nil {
			rows = [][]driver.Value{{r.epoch, r.count, r.token, r.owner, r.ends - now, r.waiter, r.waits - now}}
		}
		return rows, 0, nil
	case t.renew:
		if r := at(1); r != nil && r.epoch == number(4) && r.count == number(5) && r.ends > 0 {
			r.ends = now + number(0)
			granted(r)
			return nil, 1, nil
		}
		return nil, 0, nil
	case t.release:
		if r := at(0); r != nil && r.epoch == number(3) && r.count == number(4) && r.ends > 0 {
			r.ends = 0
			return nil, 1, nil
		}
		return nil, 0, nil
	case t.wait:
		if r := at(2); r != nil && (r.waits <= now || string(r.waiter) == string(bytes(5))) {
			r.waiter, r.waits = bytes(0), now+number(1)
			return nil, 1, nil
		}
		return nil, 0, nil
	case t.busy:
		for key, r := range f.table {
			if key.family == string(bytes(0)) && key.name == string(bytes(1)) && r.ends > now {
				rows = append(rows, []driver.Value{int64(key.slot), r.owner, r.ends - now})
			}
		}
		return rows, 0, nil
	case t.list:
		for key, r := range f.table { // in no order
			if r.ends > now {
				rows = append(rows, []driver.Value{[]byte(key.family), []byte(key.name), int64(key.slot), r.epoch, r.count, r.owner, now - r.began, r.ends - now})
			}
		}
		return rows, 0, nil
	case t.forget:
		if r := at(2); r != nil {
			if string(r.token) == string(bytes(0)) {
				r.ends = 0
			}
			if string(r.waiter) == string(bytes(0)) {
				r.waits = 0
			}
		}
		return nil, 1, nil
	}
	return nil, 0, errors.New("the fake does not know " + text)
}

// The driver.

func (f *fake) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

type fakeConn struct{ *fake }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("no transactions") }
func (c fakeConn) Close() error                        { return nil }

func (c fakeConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	_, n, err := c.run(ctx, text, args)
	return driver.RowsAffected(n), err
}

func (c fakeConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, _, err := c.run(ctx, text, args)
	return &fakeRows{rows}, err
}

type fakeRows struct{ left [][]driver.Value }

func (r *fakeRows) Columns() []string {
	if len(r.left) == 0 {
		return nil
	}
	return make([]string, len(r.left[0]))
}
func (r *fakeRows) Close() error { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(dest, r.left[0])
	r.left = r.left[1:]
	return nil
}
