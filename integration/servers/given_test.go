//go:build linux

package servers

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestGiven points the variables at servers and expects those to be used.
func TestGiven(t *testing.T) {
	for _, want := range wants {
		if want.kind == KindPgBouncer {
			continue // below
		}
		t.Run(string(want.kind), func(t *testing.T) {
			real := get(t, want.kind)
			t.Setenv(engines[want.kind].env, real.DSN(""))
			var all sharedServers
			s, err := all.get(t.Context(), want.kind, nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.Private() || s.Name != real.Name || s.DSN("d") != real.DSN("d") || s.Pid() != 0 {
				t.Errorf("given %s, got %s, private: %v", real.DSN("d"), s.DSN("d"), s.Private())
			}
			execute(t, s, s.Database(t), "CREATE TABLE a (id int)")
			if err := errors.Join(s.Stop(), s.Open(t, "").PingContext(t.Context())); err != nil {
				t.Error("Stop: ", err)
			}
			if err := s.Kill9(); !errors.Is(err, ErrGiven) {
				t.Error("Kill9: ", err)
			}
			if err := s.Restart(t.Context()); !errors.Is(err, ErrGiven) {
				t.Error("Restart: ", err)
			}
		})
	}
	t.Run(string(KindPgBouncer), func(t *testing.T) {
		real := get(t, KindPgBouncer)
		t.Setenv(engines[KindPgBouncer].env, real.DSN(""))
		var all sharedServers
		s, err := all.get(t.Context(), KindPgBouncer, get(t, KindPostgres))
		if err != nil {
			t.Fatal(err)
		}
		if s.Private() || s.Name != real.Name {
			t.Errorf("%s, private: %v", s.Name, s.Private())
		}
		execute(t, s, s.Database(t), "CREATE TABLE a (id int)")
	})
}

// TestGivenWrongly sets each variable to what does not serve: an error, which
// holds no password, and no private server instead.
func TestGivenWrongly(t *testing.T) {
	const secret = "s3cret"
	postgres, mariadb := get(t, KindPostgres), get(t, KindMariaDB)
	nobody := listenAndClose(t)
	withPassword := func(dsn string) string {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), secret)
		return u.String()
	}
	for _, test := range []struct {
		kind Kind
		dsn  string
		want string
	}{
		{KindPostgres, "host=h user=u password=" + secret, "want the form postgres://"},
		{KindPostgres, "postgres://u:" + secret + "@h:port:5/%zz", "want the form postgres://"},
		{KindPostgres, "postgres://u:" + secret + "@127.0.0.1:" + nobody + "/d?sslmode=disable", "refused"},
		{KindPostgres18, withPassword(postgres.DSN("")), "this is not a PostgreSQL 18: its version is"},
		{KindMySQL, mariadb.DSN(""), "this is not a MySQL: its version is"},
		{KindTiDB, mariadb.DSN(""), "this is not a TiDB: its version is"},
		{KindMariaDB, "u:" + secret + "@tcp(127.0.0.1:" + nobody + ")/", "refused"},
		{KindMariaDB, "mysql://u:" + secret + "@127.0.0.1", "want the form user:password@tcp("},
	} {
		if test.kind == KindPostgres18 && strings.HasPrefix(postgres.Version, "18") {
			continue
		}
		t.Setenv(engines[test.kind].env, test.dsn)
		var all sharedServers
		s, err := all.get(t.Context(), test.kind, nil)
		if err == nil {
			t.Errorf("%s: got %s", test.kind, s.DSN(""))
			continue
		}
		t.Log(err)
		if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), engines[test.kind].env) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v; want %q and %s", test.kind, err, test.want, engines[test.kind].env)
		}
		os.Unsetenv(engines[test.kind].env)
	}
}

func TestNotGiven(t *testing.T) {
	for kind, service := range map[Kind]string{KindMySQL: "mysql", KindTiDB: "tidb"} {
		if os.Getenv(engines[kind].env) != "" {
			continue
		}
		_, err := Shared(t.Context(), kind)
		if !errors.Is(err, ErrNotGiven) {
			t.Fatal(err)
		}
		t.Log(err)
		for _, part := range []string{engines[kind].env, "docker compose up -d --wait " + service} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v\ndoes not say %s", err, part)
			}
		}
	}
}

// TestMissing takes the programs away and expects the error to say what to run.
func TestMissing(t *testing.T) {
	script, err := filepath.Abs("../../.ci/install")
	if err != nil {
		t.Fatal(err)
	}
	if installScript() != script {
		t.Errorf("the script is %s, not %s", installScript(), script)
	}
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	t.Setenv("PGBIN", empty)
	t.Setenv("FENCEDSQL_CACHE", empty)
	for kind, apt := range map[Kind]string{
		KindPostgres:   " postgresql",
		KindPostgres18: "",
		KindMariaDB:    " mariadb-server",
	} {
		if kind == KindPostgres18 && firstWith([]string{"/usr/lib/postgresql/18/bin"}, "postgres") != "" {
			continue
		}
		_, err := engines[kind].find()
		if err == nil {
			t.Errorf("%s was found", kind)
			continue
		}
		t.Log(err)
		var missing *MissingError
		if !errors.As(err, &missing) || missing.Kind != kind {
			t.Errorf("%T", err)
		}
		parts := []string{"bash " + script, "set " + engines[kind].env}
		if apt != "" {
			parts = append(parts, "apt-get install -y --no-install-recommends"+apt)
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v\ndoes not say %s", err, part)
			}
		}
	}
}

// listenAndClose gives a port that nobody listens on.
func listenAndClose(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
