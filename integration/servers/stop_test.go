//go:build linux

package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listen takes a port for the test's time.
func listen(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

func TestStopAllLeavesNothingBehind(t *testing.T) {
	var family []relative
	for _, want := range wants {
		s := get(t, want.kind)
		if !s.Private() {
			continue
		}
		pid := s.Pid()
		family = append(append(family, self(t, pid)), childrenOf(pid)...)
		if err := s.Open(t, "", execMode(s)...).PingContext(t.Context()); err != nil { // a client must not hold it up
			t.Fatal(err)
		}
	}
	dir := scratch.dir
	if len(family) == 0 {
		t.Skip("the environment gives all servers")
	}
	t.Logf("%d processes in %s", len(family), dir)
	start := time.Now()
	if err := StopAll(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %v", time.Since(start))
	for _, process := range family {
		if process.alive() {
			t.Errorf("process %d is alive", process.pid)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", dir, err)
	}
	if err := StopAll(); err != nil {
		t.Error("a second time: ", err)
	}
	// And a next test gets a new one.
	if s := get(t, KindMariaDB); s.Private() {
		if err := s.Open(t, "").PingContext(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

const victimEnv = "FENCEDSQL_SERVERS_TEST_VICTIM"

// beVictim starts one server of each kind, prints their processes, and waits
// for its end.
func beVictim() error {
	ctx := context.Background()
	postgres, err := Start(ctx, KindPostgres)
	if err != nil {
		return err
	}
	postgres18, err := Start(ctx, KindPostgres18)
	if err != nil {
		return err
	}
	pgbouncer, err := StartPgBouncer(ctx, postgres)
	if err != nil {
		return err
	}
	mariadb, err := Start(ctx, KindMariaDB)
	if err != nil {
		return err
	}
	var pids []string
	for _, s := range []*Server{postgres, postgres18, pgbouncer, mariadb} {
		pids = append(pids, strconv.Itoa(s.Pid()))
		for _, child := range childrenOf(s.Pid()) {
			pids = append(pids, strconv.Itoa(child.pid))
		}
	}
	fmt.Println(victimEnv, scratch.dir, strings.Join(pids, " "))
	time.Sleep(5 * time.Minute)
	return errors.New("nobody ended the victim")
}

// TestServersDieWithTheTestBinary kills a test binary, as no TestMain can
// foresee, and checks that its servers end and that the next test binary
// removes its files.
func TestServersDieWithTheTestBinary(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	// t.TempDir's parent is closed to others.
	if err := errors.Join(os.Chmod(temp, 0o755), os.Chmod(filepath.Dir(temp), 0o755)); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(program)
	victim.Env = append(os.Environ(), victimEnv+"=1", "TMPDIR="+temp)
	victim.Stderr = os.Stderr
	output, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer victim.Process.Kill()
	scanner := bufio.NewScanner(output)
	if !scanner.Scan() {
		t.Fatal("the victim did not start its servers: ", errors.Join(scanner.Err(), victim.Wait()))
	}
	fields := strings.Fields(scanner.Text())
	if len(fields) < 10 || fields[0] != victimEnv {
		t.Fatalf("the victim says %q", scanner.Text())
	}
	dir := fields[1]
	var family []relative
	for _, field := range fields[2:] {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		family = append(family, self(t, pid))
	}

	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	victim.Wait()
	start := time.Now()
	for _, process := range family {
		for process.alive() {
			if time.Since(start) > 20*time.Second {
				t.Errorf("process %d outlives its test binary", process.pid)
				process.kill()
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	t.Logf("%d processes were gone after %v", len(family), time.Since(start))

	t.Setenv("TMPDIR", temp)
	sweep()
	if _, err := os.Stat(dir); err != nil {
		t.Fatal("too young to be removed, but gone: ", err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(temp, "fencedsql-servers-unlocked")
	if err := os.Mkdir(used, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(used, old, old); err != nil {
		t.Fatal(err)
	}
	sweep()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", dir, err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Error("a folder without a lock is not ours, but gone: ", err)
	}
}

// TestSweepLeavesOthersAlone checks that the folder of a living test binary,
// this one, stays however old it is.
func TestSweepLeavesOthersAlone(t *testing.T) {
	s, err := Start(t.Context(), KindPostgres)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(scratch.dir, old, old); err != nil {
		t.Fatal(err)
	}
	sweep()
	if _, err := os.Stat(s.dir); err != nil {
		t.Fatal(err)
	}
}
