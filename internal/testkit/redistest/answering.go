package redistest

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
)

// Answering returns a dialer for connections on which another server seems to answer: answer
// is given each command, and what it returns is the error that the client gets in place of
// the server's reply; "" lets the command through. A connection that subscribes is left alone
// from then on. A nil dial dials the address itself.
func Answering(dial DialFunc, answer func(Command) string) DialFunc {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		server, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		client, ours := net.Pipe()
		go func() {
			defer server.Close()
			defer ours.Close()
			impersonate(bufio.NewReaderSize(ours, bufferSize), ours, bufio.NewReader(server), server, answer)
		}()
		return &clientConn{Conn: client, server: server}, nil
	}
}

// impersonate carries one request and its reply after the other, until either side ends.
func impersonate(requests *bufio.Reader, client io.Writer, replies *bufio.Reader, server io.Writer, answer func(Command) string) {
	for {
		request, err := readFrame(requests)
		if err != nil {
			return
		}
		if text := answer(Command(request.text)); text != "" {
			if _, err = io.WriteString(client, "-"+text+"\r\n"); err != nil {
				return
			}
			continue
		}
		if _, err = server.Write(request.raw); err != nil {
			return
		}
		if answeredByPush(Command(request.text)) {
			go func() { _, _ = io.Copy(server, requests) }() // ends with the connections
			_, _ = io.Copy(client, replies)
			return
		}
		reply, err := readFrame(replies)
		if err != nil {
			return
		}
		if _, err = client.Write(reply.raw); err != nil {
			return
		}
	}
}

// Declares returns how many keys a call of a script declares, or -1 if c is none.
func Declares(c Command) int {
	if !IsScript(c) || len(c) < 3 {
		return -1
	}
	n, err := strconv.Atoi(c[2])
	if err != nil {
		return -1
	}
	return n
}
