//go:build linux

package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/lib/pq"
)

// wants are the servers that this machine must be able to start, with the
// drivers that each takes and a parameter that proves that parameters pass.
var wants = []struct {
	kind    Kind
	drivers []string
	param   map[string]string // by driver
}{
	{KindPostgres, []string{"pgx", "postgres"}, map[string]string{"pgx": "default_query_exec_mode=cache_describe", "postgres": "application_name=a b+c"}},
	{KindPostgres18, []string{"pgx", "postgres"}, map[string]string{"pgx": "default_query_exec_mode=exec", "postgres": "application_name=a b+c"}},
	{KindPgBouncer, []string{"pgx"}, map[string]string{"pgx": "default_query_exec_mode=exec"}},
	{KindMariaDB, []string{"mysql"}, map[string]string{"mysql": "sql_mode='ANSI_QUOTES,STRICT_ALL_TABLES'"}},
}

// get fails the test, and does not skip it, if the server cannot be had: the
// error has the line to run.
func get(t *testing.T, kind Kind) *Server {
	t.Helper()
	var s *Server
	var err error
	if kind == KindPgBouncer {
		s, err = PgBouncer(t.Context(), get(t, KindPostgres))
	} else {
		s, err = Shared(t.Context(), kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEachServerAnswersEachDriver(t *testing.T) {
	for _, want := range wants {
		t.Run(string(want.kind), func(t *testing.T) {
			s := get(t, want.kind)
			if s.Name == "" || s.Version == "" || !strings.Contains(s.Name, engines[want.kind].product+" ") {
				t.Errorf("Name %q, Version %q", s.Name, s.Version)
			}
			if again := get(t, want.kind); again != s {
				t.Errorf("a second server was started: %s, %s", s.DSN(""), again.DSN(""))
			}
			database := s.Database(t)
			for _, driver := range want.drivers {
				t.Run(driver, func(t *testing.T) {
					db, err := sql.Open(driver, s.DSN(database, want.param[driver]))
					if err != nil {
						t.Fatal(err)
					}
					defer db.Close()
					var one int
					if err := db.QueryRowContext(t.Context(), "SELECT 1").Scan(&one); err != nil || one != 1 {
						t.Fatalf("SELECT 1 gives %d, %v", one, err)
					}
					query, wanted := "SELECT current_database()", database
					if driver == "mysql" {
						query = "SELECT concat(database(), ' ', @@sql_mode)"
						wanted += " ANSI_QUOTES,STRICT_ALL_TABLES"
					}
					if driver == "postgres" {
						query = "SELECT current_database() || ' ' || current_setting('application_name')"
						wanted += " a b+c"
					}
					if got, err := ask(t.Context(), db, query); err != nil || got != wanted {
						t.Errorf("%s gives %q, %v; want %q", query, got, err, wanted)
					}
				})
			}
		})
	}
}

func TestPgBouncerPoolsByTransaction(t *testing.T) {
	s := get(t, KindPgBouncer)
	if !s.Private() {
		t.Skip("its console need not be open to us")
	}
	db, err := openPostgres(s.DSN("pgbouncer"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SHOW CONFIG")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key, value, byDefault, changeable sql.NullString
		if err := rows.Scan(&key, &value, &byDefault, &changeable); err != nil {
			t.Fatal(err)
		}
		if key.String == "pool_mode" {
			if value.String != "transaction" {
				t.Errorf("pool_mode = %s", value.String)
			}
			return
		}
	}
	t.Error("no pool_mode: ", rows.Err())
}

func TestDatabasesAreApart(t *testing.T) {
	for _, want := range wants {
		t.Run(string(want.kind), func(t *testing.T) {
			s := get(t, want.kind)
			one, two := s.Database(t), s.Database(t)
			if one == two {
				t.Fatal("the same name twice: ", one)
			}
			execute(t, s, one, "CREATE TABLE a (id int)")
			execute(t, s, two, "CREATE TABLE a (id int)")
			if err := s.CreateDatabase(t.Context(), one); err == nil {
				t.Error("a database was created that was there")
			}
			if err := s.DropDatabase(t.Context(), two); err != nil {
				t.Error(err)
			}
			if err := s.DropDatabase(t.Context(), two); err != nil {
				t.Error("dropping one that is not there: ", err)
			}
			for _, name := range []string{"", "A", `a"b`, "a`b", "a b", strings.Repeat("a", 64)} {
				if err := s.CreateDatabase(t.Context(), name); err == nil {
					t.Errorf("a database named %q", name)
				}
			}
		})
	}
}

// TestDatabaseNames guards the limit of 63 bytes, past which PostgreSQL would
// cut off what tells two names apart.
func TestDatabaseNames(t *testing.T) {
	for _, test := range []string{"TestA", "TestÄ/ö", "Test" + strings.Repeat("x", 300), "Test/with/parts#01"} {
		name := databaseName(test)
		if len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("%q gives %q", test, name)
		}
		if databaseName(test) == name {
			t.Errorf("%q gives %q twice", test, name)
		}
	}
}

// execute runs a statement in a pool of its own.
func execute(t *testing.T, s *Server, database, statement string) {
	t.Helper()
	db, err := sql.Open(s.Driver(), s.DSN(database, execMode(s)...))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func execMode(s *Server) []string {
	if s.Kind == KindPgBouncer {
		return []string{"default_query_exec_mode=exec"}
	}
	return nil
}

// TestKill9KeepsCommittedRows kills a server while a client writes row after
// row: each that was confirmed must be there afterwards, and none of an open
// transaction.
func TestKill9KeepsCommittedRows(t *testing.T) {
	for _, kind := range []Kind{KindPostgres, KindPostgres18, KindMariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			database := s.Database(t)
			execute(t, s, database, "CREATE TABLE rows_ (id int PRIMARY KEY)")
			db := s.Open(t, database)
			open, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := open.ExecContext(t.Context(), "INSERT INTO rows_ VALUES (-1)"); err != nil {
				t.Fatal(err)
			}
			pid := s.Pid()
			family := append(childrenOf(pid), self(t, pid))

			const before = 200 // rows, until it is killed
			confirmed, wrote := 0, make(chan struct{})
			var writer sync.WaitGroup
			writer.Go(func() {
				for id := 1; ; id++ {
					if _, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO rows_ VALUES (%d)", id)); err != nil {
						return
					}
					confirmed = id
					if id == before {
						close(wrote)
					}
				}
			})
			<-wrote
			if err := s.Kill9(); err != nil {
				t.Fatal(err)
			}
			writer.Wait()
			for _, process := range family {
				if process.alive() {
					t.Errorf("process %d of %d is alive after Kill9", process.pid, pid)
				}
			}
			if s.Pid() != 0 {
				t.Errorf("Pid is %d after Kill9", s.Pid())
			}
			if err := db.PingContext(t.Context()); err == nil {
				t.Error("the server answers after Kill9")
			}
			if err := s.Kill9(); err != nil {
				t.Error("killing a killed one: ", err)
			}

			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.Pid() == 0 || s.Pid() == pid {
				t.Errorf("pid %d, before %d", s.Pid(), pid)
			}
			check := func() {
				t.Helper()
				var rows, largest, least int
				if err := db.QueryRowContext(t.Context(), "SELECT count(*), max(id), min(id) FROM rows_").Scan(&rows, &largest, &least); err != nil {
					t.Fatal(err)
				}
				// The one that was being written may be there or not.
				if largest < confirmed || largest > confirmed+1 || rows != largest || least != 1 {
					t.Errorf("%d rows from %d to %d; %d were confirmed", rows, least, largest, confirmed)
				}
			}
			check()
			if err := s.Restart(t.Context()); err != nil { // now in its own way
				t.Fatal(err)
			}
			check()
		})
	}
}

// self is a process as its children are told of.
func self(t *testing.T, pid int) relative {
	t.Helper()
	stat, ok := readStat(pid)
	if !ok {
		t.Fatalf("no process %d", pid)
	}
	return relative{pid, stat.start}
}

func TestPgBouncerComesBack(t *testing.T) {
	of := get(t, KindPostgres)
	s, err := StartPgBouncer(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	db := s.Open(t, "", execMode(s)...)
	if err := s.Kill9(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), db, "SELECT 1"); err == nil {
		t.Error("it answers after Kill9")
	}
	for range 2 {
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), db, "SELECT 1"); err != nil {
			t.Error(err)
		}
	}
}

// TestTakenPorts makes the choice of ports a bad one, twice, each time in a
// way that has its own way to go wrong: a stranger, who answers nothing, and
// a server of the same kind, which answers in its place.
func TestTakenPorts(t *testing.T) {
	defer func() { pickPort = freePort }()
	for _, want := range wants {
		t.Run(string(want.kind), func(t *testing.T) {
			other := get(t, want.kind)
			if !other.Private() {
				t.Skip("the environment gives it")
			}
			stranger := listen(t)
			taken := []int{stranger, other.port}
			tries := 0
			pickPort = func() (int, error) {
				tries++
				if tries <= len(taken) {
					return taken[tries-1], nil
				}
				return freePort()
			}
			var s *Server
			var err error
			if want.kind == KindPgBouncer {
				s, err = StartPgBouncer(t.Context(), other.behind)
			} else {
				s, err = Start(t.Context(), want.kind)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			if tries != 3 || s.port == stranger || s.port == other.port {
				t.Errorf("port %d after %d tries; taken were %v", s.port, tries, taken)
			}
		})
	}
}

// TestFailedStart checks that the error ends in what the server said, and
// that nothing stays.
func TestFailedStart(t *testing.T) {
	for _, kind := range []Kind{KindPostgres, KindMariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			l, err := engines[kind].find()
			if err != nil {
				t.Fatal(err)
			}
			command := l.command
			l.command = func(dir string, port int) []string {
				return append(command(dir, port), "--no-such-setting=1")
			}
			s, err := start(t.Context(), kind, l)
			if err == nil {
				s.Stop()
				t.Fatal("it started")
			}
			t.Log(err)
			if !strings.Contains(err.Error(), "no") || !strings.Contains(err.Error(), "its log:\n") ||
				!strings.Contains(err.Error(), "such") {
				t.Error("the log is not in the error")
			}
			if left, _ := filepath.Glob(filepath.Join(scratch.dir, l.name+"-*")); len(left) > countPrivate(l.name) {
				t.Errorf("folders left: %v", left)
			}
		})
	}
}

func countPrivate(name string) int {
	running.Lock()
	defer running.Unlock()
	n := 0
	for _, s := range running.list {
		if s.launcher.name == name {
			n++
		}
	}
	return n
}

// TestCallerGivesUp checks that a start which its caller's context ended is
// not held against the next caller.
func TestCallerGivesUp(t *testing.T) {
	var all sharedServers
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.get(ctx, KindPostgres, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s, err := all.get(t.Context(), KindPostgres, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
}
