package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a database server that answers. Its methods may be called from
// several goroutines.
type Server struct {
	Kind Kind
	// Name is the product with its version number: "PostgreSQL 15.18".
	Name string
	// Version is what the server says of itself; "" if it does not.
	Version string

	engine *engine
	base   string  // a DSN that join takes
	behind *Server // of a PgBouncer: the PostgreSQL

	// Of private servers only.
	launcher *launcher // nil: given
	dir      string    // all of its files
	port     int
	mu       sync.Mutex // held while it is stopped, killed or started
	process  *process
	gone     bool // Stop was called
}

// given takes a server from the environment.
func given(ctx context.Context, kind Kind, dsn string) (*Server, error) {
	e := engines[kind]
	fail := func(err error) (*Server, error) { return nil, fmt.Errorf("servers: %s: %w", e.env, err) }
	base, err := e.dsn.join(dsn, "", nil)
	if err != nil {
		return fail(err)
	}
	s := &Server{Kind: kind, engine: e, base: base}
	ctx, cancel := context.WithTimeout(ctx, givenTimeout)
	defer cancel()
	if err := s.introduce(ctx); err != nil {
		return fail(err)
	}
	return s, nil
}

// givenTimeout is how long a server of the environment may take to answer: it
// was said to be there.
const givenTimeout = 20 * time.Second

// introduce asks the server for its version and checks that it is of its kind.
func (s *Server) introduce(ctx context.Context) error {
	db, err := s.engine.dsn.open(s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	if s.engine.version == "" { // a pooler: its console may be closed to us
		if _, err := ask(ctx, db, "SELECT 1"); err != nil {
			return err
		}
		s.Version = s.consoleVersion(ctx)
	} else if s.Version, err = ask(ctx, db, s.engine.version); err != nil {
		return err
	}
	if !s.engine.fits(s.Version) {
		return fmt.Errorf("this is not a %s: its version is %q", s.Kind, s.Version)
	}
	s.Name = s.engine.name(s.Version)
	return nil
}

// DSN gives the DSN of a database of the server, for the drivers pgx and
// postgres (lib/pq), or mysql; "" is the database that is always there
// (PostgreSQL) or none (the others). Further parameters of the driver, such as
// "interpolateParams=true" or "default_query_exec_mode=exec", are added, their
// values escaped. It panics on a parameter that the driver does not take.
//
//	postgres://postgres@127.0.0.1:21874/db?sslmode=disable
//	root@tcp(127.0.0.1:30122)/db
func (s *Server) DSN(database string, params ...string) string {
	dsn, err := s.engine.dsn.join(s.base, database, params)
	if err != nil {
		panic(fmt.Sprintf("servers: DSN(%q, %q): %v", database, params, err))
	}
	return dsn
}

// Driver is the name of database/sql that fits DSN: pgx or mysql.
func (s *Server) Driver() string {
	if strings.HasPrefix(s.base, "postgres") {
		return "pgx"
	}
	return "mysql"
}

// Private tells whether the server was started here and can be killed.
func (s *Server) Private() bool { return s.launcher != nil }

// Pid is the process id of a private server's first process, 0 of a given
// one or one that does not run.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.runs() {
		return 0
	}
	return s.process.pid
}

// runs is to be called with mu held.
func (s *Server) runs() bool { return s.process != nil && !s.process.ended() }

func (s *Server) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// CreateDatabase creates an empty database, and fails if it is there. The name
// is one of lower-case letters, digits and underscores, at most 63. Behind a
// PgBouncer it is created at the server itself. It costs some 50 ms with
// PostgreSQL, which copies its template's files, and 1 ms with MariaDB.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	return s.admin(ctx, s.engine.dsn.create, name)
}

// DropDatabase drops a database, if it is there, with all connections to it
// (PostgreSQL) or behind their backs (the others).
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	return s.admin(ctx, s.engine.dsn.drop, name)
}

// target is the server itself, or the one behind a pooler.
func (s *Server) target() *Server {
	if s.behind != nil {
		return s.behind
	}
	return s
}

func (s *Server) admin(ctx context.Context, statement, name string) error {
	s = s.target()
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_"
	if name == "" || len(name) > 63 || strings.Trim(name, letters) != "" {
		return fmt.Errorf("servers: not a name for a test's database: %q", name)
	}
	db, err := s.engine.dsn.open(s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, fmt.Sprintf(statement, s.engine.dsn.quote(name))); err != nil {
		return fmt.Errorf("servers: %s: %w", s.Name, err)
	}
	return nil
}

// Database creates a database for a test and drops it when the test has ended.
// Its name, which it returns, is like the test's and used by no other, so that
// several test binaries may share a server.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := databaseName(t.Name())
	if err := s.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A test may have killed or stopped it.
		if target := s.target(); target.Private() && target.Pid() == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), givenTimeout)
		defer cancel()
		if err := s.DropDatabase(ctx, name); err != nil {
			t.Log(err)
		}
	})
	return name
}

// databaseName is like a test's name, and random at its end.
func databaseName(test string) string {
	like := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, test)
	return like[:min(len(like), 40)] + "_" + strings.ToLower(rand.Text()[:12])
}

// Open opens a database of the server with the driver of [Server.Driver] and
// closes it when the test has ended.
func (s *Server) Open(t testing.TB, database string, params ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.Driver(), s.DSN(database, params...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Kill9 kills a private server as kill -9 does, the first process and then its
// children, and returns when all are gone. What it had confirmed is in its
// files; clients see their connections break. [Server.Restart] brings it back.
func (s *Server) Kill9() error {
	if !s.Private() {
		return ErrGiven
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return s.process.kill()
}

// Restart starts a private server again after Kill9, or stops it in its own
// way first if it runs, with the same port, so that every DSN stays. It
// returns when the server answers.
func (s *Server) Restart(ctx context.Context) error {
	if !s.Private() {
		return ErrGiven
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errors.New("servers: " + s.Name + " was stopped for good")
	}
	if s.process != nil {
		if err := s.process.stop(s.launcher.shutdown); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.launch(ctx)
		if !errors.Is(err, errPortTaken) {
			return err
		}
		// Somebody borrowed the port, as a client's end perhaps.
		if err := pause(ctx, err); err != nil {
			return err
		}
	}
}

// Stop ends a private server, without ado, and removes its files. A server of
// the environment is left alone.
func (s *Server) Stop() error {
	if !s.Private() {
		return nil
	}
	running.Lock()
	for i, other := range running.list {
		if other == s {
			running.list = append(running.list[:i:i], running.list[i+1:]...)
			break
		}
	}
	running.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil
	}
	s.gone = true
	var err error
	if s.process != nil {
		err = s.process.stop(s.launcher.abort)
	}
	return errors.Join(err, removeServerDir(s.dir))
}
