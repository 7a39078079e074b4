package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// scratch is this process's folder in the system's folder for temporary
// files, with one folder in it for each server. Its lock tells others that it
// is in use; the system lets go of it however this process ends.
var scratch struct {
	sync.Mutex
	dir   string
	lock  *os.File
	count int
}

const (
	scratchPattern = "fencedsql-servers-*"
	lockName       = "lock"
)

// newServerDir makes a folder that belongs to the account that runs the
// server.
func newServerDir(l *launcher) (string, error) {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.dir == "" {
		sweep()
		if err := newScratch(); err != nil {
			return "", err
		}
	}
	scratch.count++
	dir := filepath.Join(scratch.dir, fmt.Sprintf("%s-%d", l.name, scratch.count))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, l.account.own(dir)
}

func newScratch() error {
	dir, err := os.MkdirTemp("", scratchPattern)
	if err != nil {
		return err
	}
	// Others may pass through it, not look into it.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	scratch.dir, scratch.lock = dir, lock
	return nil
}

// sweep removes the folders of test binaries that were killed. The servers in
// them were ended by the kernel.
func sweep() {
	// Younger ones may not be locked yet, or their servers still be ending.
	const age = time.Minute
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPattern))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < age {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		lock.Close()
	}
}

// removeServerDir removes a server's folder.
func removeServerDir(dir string) error { return os.RemoveAll(dir) }

// removeScratch removes the folder if no server is in it.
func removeScratch() error {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.dir == "" {
		return nil
	}
	if left, _ := filepath.Glob(filepath.Join(scratch.dir, "*-*")); len(left) > 0 {
		return nil // one that was being started
	}
	err := errors.Join(os.RemoveAll(scratch.dir), scratch.lock.Close())
	scratch.dir, scratch.lock = "", nil
	return err
}
