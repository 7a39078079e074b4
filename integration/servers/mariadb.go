package servers

import (
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

func findMariaDB() (*launcher, error) {
	server, err := lookDaemon("mariadbd")
	if err != nil {
		return nil, missing(KindMariaDB, "mariadb-server", "no mariadbd in PATH or /usr/sbin")
	}
	install, err := lookDaemon("mariadb-install-db")
	if err != nil {
		return nil, missing(KindMariaDB, "mariadb-server", "no mariadb-install-db in PATH")
	}
	account, err := accountFor(KindMariaDB, "mariadb-server", "mysql")
	if err != nil {
		return nil, err
	}
	// For the first start and all others: the size must not change between.
	settings := []string{
		"--innodb-log-file-size=32M",
		"--innodb-buffer-pool-size=64M",
		"--innodb-flush-method=nosync",
	}
	return &launcher{
		kind:    KindMariaDB,
		name:    "mariadb",
		account: account,
		prepare: func(ctx context.Context, dir string) error {
			return run(ctx, append([]string{
				install, "--no-defaults", "--datadir=" + filepath.Join(dir, "data"),
				"--auth-root-authentication-method=normal", "--skip-test-db",
			}, settings...), dir, filepath.Join(dir, logName), account)
		},
		command: func(dir string, port int) []string {
			return append([]string{
				server, "--no-defaults", "--datadir=" + filepath.Join(dir, "data"),
				"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"),
				"--skip-networking=0", "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
				"--skip-name-resolve", "--max-connections=200",
				// As Debian sets them.
				"--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci",
				// Not 0: that keeps up to a second of commits in the server's
				// memory, where kill -9 takes them. 2 hands each to the system.
				"--innodb-flush-log-at-trx-commit=2",
			}, settings...)
		},
		stale: []string{"pid", "socket"},
		base: func(port int) string {
			return fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port)
		},
		identify: func(ctx context.Context, db *sql.DB) (string, error) {
			return ask(ctx, db, "SELECT @@datadir")
		},
		shutdown: syscall.SIGTERM,
		abort:    syscall.SIGKILL, // one process, and its files are not needed
		death:    syscall.SIGKILL,
	}, nil
}

// lookDaemon looks in PATH and where Debian has daemons, which not every user
// has in PATH.
func lookDaemon(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", program))
	}
	return path, err
}
