package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Postgres gives the shared PostgreSQL, in Debian 12 a PostgreSQL 15.
func Postgres(ctx context.Context) (*Server, error) { return Shared(ctx, KindPostgres) }

// Postgres18 gives the shared PostgreSQL 18.
func Postgres18(ctx context.Context) (*Server, error) { return Shared(ctx, KindPostgres18) }

// MariaDB gives the shared MariaDB.
func MariaDB(ctx context.Context) (*Server, error) { return Shared(ctx, KindMariaDB) }

// MySQL gives the environment's MySQL 8, or an error that is ErrNotGiven.
func MySQL(ctx context.Context) (*Server, error) { return Shared(ctx, KindMySQL) }

// TiDB gives the environment's TiDB, or an error that is ErrNotGiven.
func TiDB(ctx context.Context) (*Server, error) { return Shared(ctx, KindTiDB) }

// PgBouncer gives the shared PgBouncer, in transaction pooling, before the
// PostgreSQL of. Where FENCEDSQL_PGBOUNCER_DSN gives it, of must be the server
// it stands before. Prepared statements do not work through it: use pgx's
// exec or simple_protocol mode.
func PgBouncer(ctx context.Context, of *Server) (*Server, error) {
	return shared.get(ctx, KindPgBouncer, of)
}

// Shared gives the environment's server of a kind, or else the one that this
// test binary shares, which it starts if this is the first call. All calls
// after a failed start give its error. KindPgBouncer is had from [PgBouncer].
//
// The error is a *MissingError where a program is missing, wraps ErrNotGiven
// where only the environment could give the server, and otherwise ends in the
// server's own log.
func Shared(ctx context.Context, kind Kind) (*Server, error) {
	return shared.get(ctx, kind, nil)
}

// Start starts a further, private server that only the caller has, to be
// killed or restarted, whatever the environment gives. [Server.Stop] or
// [StopAll] ends it. Of the kinds that only the environment can give it
// returns ErrNotGiven.
func Start(ctx context.Context, kind Kind) (*Server, error) {
	e := engines[kind]
	if e == nil || kind == KindPgBouncer {
		return nil, fmt.Errorf("servers: Start cannot start a %q", string(kind))
	}
	if e.find == nil {
		return nil, notGiven(kind)
	}
	l, err := e.find()
	if err != nil {
		return nil, err
	}
	return start(ctx, kind, l)
}

// StartPgBouncer is [Start] for a PgBouncer before of.
func StartPgBouncer(ctx context.Context, of *Server) (*Server, error) {
	l, err := findPgBouncer(of)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, KindPgBouncer, l)
	if err != nil {
		return nil, err
	}
	s.behind = of
	return s, nil
}

// StopAll stops every private server of this test binary and removes its
// files. It returns what did not stop or could not be removed. A server asked
// for later is started anew.
func StopAll() error {
	shared.forget()
	running.Lock()
	list := running.list
	running.list = nil
	running.Unlock()

	// Poolers first: they hold connections to the others.
	var errs []error
	for _, poolers := range []bool{true, false} {
		var wg sync.WaitGroup
		results := make([]error, len(list))
		for i, s := range list {
			if (s.Kind == KindPgBouncer) == poolers {
				wg.Go(func() { results[i] = s.Stop() })
			}
		}
		wg.Wait()
		errs = append(errs, results...)
	}
	errs = append(errs, removeScratch())
	return errors.Join(errs...)
}

// Run is for TestMain: it runs the tests, stops all servers, and returns the
// exit code, which is 1 if a server could not be stopped.
func Run(m interface{ Run() int }) int {
	code := m.Run()
	if err := StopAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// running are the private servers that were started and not stopped.
var running struct {
	sync.Mutex
	list []*Server
}

// sharedServers are the servers that the tests of this binary share.
type sharedServers struct {
	mu    sync.Mutex
	slots map[slotKey]*slot
}

// slotKey tells servers apart: PgBouncers by what they stand before as well.
type slotKey struct {
	kind Kind
	of   *Server
}

type slot struct {
	mu     sync.Mutex // held while the server is being started
	server *Server
	err    error
}

var shared sharedServers

func (all *sharedServers) get(ctx context.Context, kind Kind, of *Server) (*Server, error) {
	if engines[kind] == nil {
		return nil, fmt.Errorf("servers: no kind %q", string(kind))
	}
	if kind == KindPgBouncer && of == nil {
		return nil, errors.New("servers: a PgBouncer is had from the function PgBouncer, with the server it stands before")
	}
	key := slotKey{kind, of}
	all.mu.Lock()
	if all.slots == nil {
		all.slots = make(map[slotKey]*slot)
	}
	one := all.slots[key]
	if one == nil {
		one = new(slot)
		all.slots[key] = one
	}
	all.mu.Unlock()

	one.mu.Lock()
	defer one.mu.Unlock()
	if one.err != nil || one.server != nil && !one.server.stopped() {
		return one.server, one.err
	}
	var s *Server
	var err error
	switch dsn := os.Getenv(engines[kind].env); {
	case dsn != "":
		if s, err = given(ctx, kind, dsn); err == nil {
			s.behind = of
		}
	case kind == KindPgBouncer:
		s, err = StartPgBouncer(ctx, of)
	default:
		s, err = Start(ctx, kind)
	}
	if err != nil && ctx.Err() == nil {
		one.err = err // a caller that gave up says nothing of the server
	}
	one.server = s
	return s, err
}

func (all *sharedServers) forget() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.slots = nil
}
