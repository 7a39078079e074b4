//go:build !unix || aix || netbsd

package main

import (
	"errors"
	"os"
	"os/exec"
)

// canPause: a process can be stopped and continued.
const canPause = false

func ownGroup(*exec.Cmd) {}

func ignoreBrokenPipe() {}

func sendStop(*os.Process) error     { return errors.ErrUnsupported }
func sendContinue(*os.Process) error { return errors.ErrUnsupported }

// watch tells when the process has ended.
func watch(p *os.Process) <-chan state {
	states := make(chan state, 1)
	go func() {
		defer close(states)
		ps, err := p.Wait()
		if err != nil {
			states <- state{ended: true, text: err.Error()}
			return
		}
		states <- state{ended: true, clean: ps.Success(), text: ps.String()}
	}()
	return states
}
