package servers

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// findPostgres looks in $PGBIN, then for the newest of Debian's, then in PATH.
func findPostgres() (*launcher, error) {
	bin := ""
	if dir := os.Getenv("PGBIN"); dir != "" {
		if bin = firstWith([]string{dir}, "postgres", "initdb"); bin == "" {
			return nil, missing(KindPostgres, "postgresql", "no postgres and initdb in $PGBIN=%s", dir)
		}
	}
	if bin == "" {
		bin = firstWith(debianPostgres(), "postgres", "initdb")
	}
	if bin == "" {
		if path, err := exec.LookPath("initdb"); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil {
				bin = firstWith([]string{filepath.Dir(path)}, "postgres", "initdb")
			}
		}
	}
	if bin == "" {
		return nil, missing(KindPostgres, "postgresql", "no postgres and initdb in $PGBIN, %s or PATH", debianPostgresDirs)
	}
	return postgresLauncher(KindPostgres, bin)
}

// findPostgres18 looks where .ci/install puts it, then for Debian's.
func findPostgres18() (*launcher, error) {
	const debian = "/usr/lib/postgresql/18/bin"
	cache := cacheDir()
	dirs, _ := filepath.Glob(filepath.Join(cache, "postgresql-18*/native/bin"))
	slices.Reverse(dirs)
	bin := firstWith(append(dirs, debian), "postgres", "initdb")
	if bin == "" {
		return nil, missing(KindPostgres18, "", "no postgres and initdb in %s or %s",
			filepath.Join(cache, "postgresql-18*/native/bin"), debian)
	}
	return postgresLauncher(KindPostgres18, bin)
}

// cacheDir is the folder of .ci/install, by the same rule.
func cacheDir() string {
	if dir := os.Getenv("FENCEDSQL_CACHE"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/cache/fencedsql"
	}
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		dir = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(dir, "fencedsql")
}

const debianPostgresDirs = "/usr/lib/postgresql/*/bin"

// debianPostgres gives the folders of Debian's versions, newest first.
func debianPostgres() []string {
	dirs, _ := filepath.Glob(debianPostgresDirs)
	slices.SortFunc(dirs, func(a, b string) int { return majorOf(b) - majorOf(a) })
	return dirs
}

func majorOf(dir string) int {
	major, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return major
}

// firstWith gives the first folder that has all the programs, or "".
func firstWith(dirs []string, programs ...string) string {
	for _, dir := range dirs {
		found := 0
		for _, program := range programs {
			if _, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
				found++
			}
		}
		if found == len(programs) {
			return dir
		}
	}
	return ""
}

func postgresLauncher(kind Kind, bin string) (*launcher, error) {
	account, err := accountFor(kind, "postgresql", "postgres")
	if err != nil {
		return nil, err
	}
	return &launcher{
		kind:    kind,
		name:    "postgresql",
		account: account,
		prepare: func(ctx context.Context, dir string) error {
			return run(ctx, []string{
				filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"),
				"-A", "trust", "-U", "postgres", "--no-sync", "--no-instructions",
				"-E", "UTF8", "--locale=C.UTF-8", // whatever the machine's is
			}, dir, filepath.Join(dir, logName), account)
		},
		command: func(dir string, port int) []string {
			return []string{
				filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"),
				"-p", strconv.Itoa(port),
				"-c", "listen_addresses=127.0.0.1",
				"-c", "unix_socket_directories=" + dir,
				"-c", "max_connections=200",
				"-c", "shared_buffers=64MB",
				"-c", "fsync=off",
				"-c", "log_destination=stderr",
				"-c", "logging_collector=off",
			}
		},
		// All processes are gone, so the files lie; the number in them may by
		// now be another process's.
		stale: []string{"data/postmaster.pid", ".s.PGSQL.*"},
		base: func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		},
		identify: func(ctx context.Context, db *sql.DB) (string, error) {
			return ask(ctx, db, "SHOW data_directory")
		},
		shutdown: syscall.SIGINT,  // "fast": rolls back what is open
		abort:    syscall.SIGQUIT, // "immediate": no checkpoint; its children and its shared memory go too
		death:    syscall.SIGQUIT,
	}, nil
}
