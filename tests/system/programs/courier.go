// Carries a file over TCP in pieces whose order four goroutines and a map decide: `receive ADDRESS PORT FILE` and
// `send ADDRESS PORT FILE`.
package main

import (
	"encoding/binary"
	"io"
	"math/rand"
	"net"
	"os"
)

const pieceBytes = 1000

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func receive(address, path string) {
	listener, err := net.Listen("tcp4", address)
	check(err)
	connection, err := listener.Accept()
	check(err)
	file, err := os.Create(path)
	check(err)
	var header [8]byte
	piece := make([]byte, pieceBytes)
	for {
		if _, err := io.ReadFull(connection, header[:]); err == io.EOF {
			return
		}
		length := binary.BigEndian.Uint32(header[4:])
		_, err := io.ReadFull(connection, piece[:length])
		check(err)
		_, err = file.WriteAt(piece[:length], int64(binary.BigEndian.Uint32(header[:4]))*pieceBytes)
		check(err)
	}
}

func send(address, path string) {
	content, err := os.ReadFile(path)
	check(err)
	connection, err := net.Dial("tcp4", address)
	check(err)
	pieces := map[int][]byte{}
	for start := 0; start < len(content); start += pieceBytes {
		pieces[start/pieceBytes] = content[start:min(start+pieceBytes, len(content))]
	}
	var queues [4]chan []byte
	for i := range queues {
		queues[i] = make(chan []byte)
	}
	go func() {
		for number, piece := range pieces {
			framed := binary.BigEndian.AppendUint32(nil, uint32(number))
			framed = binary.BigEndian.AppendUint32(framed, uint32(len(piece)))
			framed = append(framed, piece...)
			queue := queues[rand.Intn(len(queues))]
			go func() { queue <- framed }()
		}
	}()
	for range pieces {
		var framed []byte
		select {
		case framed = <-queues[0]:
		case framed = <-queues[1]:
		case framed = <-queues[2]:
		case framed = <-queues[3]:
		}
		_, err := connection.Write(framed)
		check(err)
	}
	check(connection.Close())
}

func main() {
	address := net.JoinHostPort(os.Args[2], os.Args[3])
	if os.Args[1] == "receive" {
		receive(address, os.Args[4])
	} else {
		send(address, os.Args[4])
	}
}
