//go:build unix && !aix && !netbsd

// Package syscall lacks WUNTRACED on AIX and WCONTINUED on NetBSD.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// canPause: a process can be stopped and continued.
const canPause = true

// ownGroup gives the command a process group of its own, so that a stopped worker is not left behind when the demo is
// killed: the end of the demo makes it an orphaned group, and one that has a stopped process is sent SIGHUP and SIGCONT.
// https://pubs.opengroup.org/onlinepubs/9799919799/functions/_exit.html
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }

func sendStop(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func sendContinue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// watch tells when the process is stopped, continued and has ended, as wait4 does. It takes the place of Wait.
func watch(p *os.Process) <-chan state {
	pid, states := p.Pid, make(chan state, 8)
	go func() {
		defer close(states)
		for {
			var ws syscall.WaitStatus
			_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED|syscall.WCONTINUED, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				states <- state{ended: true, text: "wait4: " + err.Error()}
				return
			}
			s := stateOf(ws)
			states <- s
			if s.ended {
				return
			}
		}
	}()
	return states
}

// stateOf reads the status that wait4 gives. It does not ask WaitStatus.Stopped, which on macOS and the BSDs says false
// of a process stopped by SIGSTOP, and Continued true.
func stateOf(ws syscall.WaitStatus) state {
	const stopped = 0x7f // the low byte; the next one is the signal
	switch sig := syscall.Signal(ws >> 8 & 0xff); {
	case ws.Exited():
		return state{ended: true, clean: ws.ExitStatus() == 0, text: fmt.Sprintf("exit status %d", ws.ExitStatus())}
	case ws.Signaled():
		return state{ended: true, text: fmt.Sprintf("ended by the signal %q", ws.Signal())}
	case ws&0xff == stopped && sig == syscall.SIGSTOP:
		return state{stopped: true, text: "stopped by SIGSTOP"}
	case ws&0xff == stopped && sig != syscall.SIGCONT:
		return state{text: fmt.Sprintf("stopped by the signal %q", sig)}
	}
	return state{continued: true, text: "continued"}
}
