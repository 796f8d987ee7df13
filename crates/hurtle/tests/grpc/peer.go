// A gRPC server and client of grpc-go without generated code: see real.rs.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// raw passes messages as they are, under the name that selects protobuf.
type raw struct{}

func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = bytes.Clone(data)
	return nil
}
func (raw) Name() string { return "proto" }

func main() {
	encoding.RegisterCodec(raw{})
	switch os.Args[1] {
	case "serve":
		serve()
	case "hang":
		hangOn(os.Args[2])
	default:
		call(os.Args[2])
	}
}

// The server prints its port, then one line for each cancelled call. It ends with its input.
func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	server := grpc.NewServer(grpc.MaxConcurrentStreams(50))
	stream := func(name string, client, server bool, handler grpc.StreamHandler) grpc.StreamDesc {
		return grpc.StreamDesc{StreamName: name, Handler: handler, ServerStreams: server, ClientStreams: client}
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}, {MethodName: "Fail", Handler: fail}},
		Streams: []grpc.StreamDesc{
			stream("Collect", true, false, collect),
			stream("Count", false, true, count),
			stream("Chat", true, true, chat),
			stream("Hang", false, true, hang),
			stream("Flood", false, true, flood),
		},
	}, new(any))
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		server.GracefulStop()
		os.Exit(0)
	}()
	check(server.Serve(listener))
}

func unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	fields, _ := metadata.FromIncomingContext(ctx)
	grpc.SetHeader(ctx, metadata.Pairs("x-head", strings.Join(fields["x-ask"], ",")))
	grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "end", "x-bin", "\x00\xff"))
	return &message, nil
}

func fail(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.FailedPrecondition, "no: "+string(message))
}

func collect(_ any, stream grpc.ServerStream) error {
	var all []byte
	for {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			return stream.SendMsg(&all)
		}
		if err != nil {
			return err
		}
		all = append(all, message...)
	}
}

func count(_ any, stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	for n := range int(message[0]) {
		reply := []byte{byte(n)}
		if err := stream.SendMsg(&reply); err != nil {
			return err
		}
	}
	return nil
}

func chat(_ any, stream grpc.ServerStream) error {
	for {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

func hang(_ any, stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	if err := stream.SendMsg(&message); err != nil {
		return err
	}
	_, has := stream.Context().Deadline()
	<-stream.Context().Done()
	fmt.Printf("%s %v deadline=%v\n", message, stream.Context().Err(), has)
	return stream.Context().Err()
}

func flood(_ any, stream grpc.ServerStream) error {
	reply := make([]byte, 60_000)
	for range 200 {
		if err := stream.SendMsg(&reply); err != nil {
			return err
		}
	}
	return nil
}

// The client makes all kinds of calls and prints a line for each.
func call(target string) {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	ask := metadata.AppendToOutgoingContext(ctx, "x-ask", "word")
	var head, tail metadata.MD
	message, reply := []byte("hello"), []byte{}
	err = connection.Invoke(ask, "/test.Echo/Unary", &message, &reply, grpc.Header(&head), grpc.Trailer(&tail))
	fmt.Printf("unary %s %v %v %v %q\n", reply, err, head["x-head"], tail["x-tail"], tail["x-bin"])

	err = connection.Invoke(ctx, "/test.Echo/Fail", &message, &reply)
	fmt.Println("fail", status.Code(err), status.Convert(err).Message())
	err = connection.Invoke(ctx, "/test.Echo/None", &message, &reply)
	fmt.Println("none", status.Code(err))

	large := bytes.Repeat([]byte("x"), 3_000_000)
	err = connection.Invoke(ctx, "/test.Echo/Unary", &large, &reply)
	fmt.Println("large", len(reply), err)

	collecting := open(ctx, connection, "Collect", true, false)
	for n := range 100 {
		piece := []byte(fmt.Sprint(n, ","))
		check(collecting.SendMsg(&piece))
	}
	check(collecting.CloseSend())
	check(collecting.RecvMsg(&reply))
	fmt.Println("collect", len(reply), collecting.RecvMsg(&reply) == io.EOF)

	counting := open(ctx, connection, "Count", false, true)
	many := []byte{200}
	check(counting.SendMsg(&many))
	check(counting.CloseSend())
	got := 0
	for counting.RecvMsg(&reply) == nil {
		got++
	}
	fmt.Println("count", got)

	chatting := open(ctx, connection, "Chat", true, true)
	for n := range 50 {
		// Each message is answered before the next one is sent.
		word := []byte(fmt.Sprint("word ", n))
		check(chatting.SendMsg(&word))
		check(chatting.RecvMsg(&reply))
		if !bytes.Equal(word, reply) {
			panic("another answer")
		}
	}
	check(chatting.CloseSend())
	fmt.Println("chat", chatting.RecvMsg(&reply) == io.EOF)

	var group sync.WaitGroup
	failed := make([]error, 300)
	for n := range failed {
		group.Add(1)
		go func() {
			defer group.Done()
			word, reply := []byte(fmt.Sprint(n)), []byte{}
			failed[n] = connection.Invoke(ctx, "/test.Echo/Unary", &word, &reply)
			if !bytes.Equal(word, reply) {
				failed[n] = errors.Join(failed[n], errors.New("another answer"))
			}
		}()
	}
	group.Wait()
	fmt.Println("together", errors.Join(failed...))

	flooded := open(ctx, connection, "Flood", false, true)
	check(flooded.SendMsg(&message))
	check(flooded.CloseSend())
	got = 0
	for flooded.RecvMsg(&reply) == nil {
		got += len(reply)
		time.Sleep(time.Millisecond)
	}
	fmt.Println("flood", got)

	short, end := context.WithTimeout(ctx, time.Second)
	late := open(short, connection, "Hang", false, true)
	word := []byte("late")
	check(late.SendMsg(&word))
	check(late.CloseSend())
	check(late.RecvMsg(&reply))
	fmt.Println("deadline", status.Code(late.RecvMsg(&reply)))
	end()

	leaving, leave := context.WithCancel(ctx)
	left := open(leaving, connection, "Hang", false, true)
	word = []byte("left")
	check(left.SendMsg(&word))
	check(left.CloseSend())
	check(left.RecvMsg(&reply))
	leave()
	fmt.Println("cancel", status.Code(left.RecvMsg(&reply)))
	connection.Close()
}

// One call that the server does not end.
func hangOn(target string) {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	stream := open(context.Background(), connection, "Hang", false, true)
	word, reply := []byte("word"), []byte{}
	check(stream.SendMsg(&word))
	check(stream.CloseSend())
	if err = stream.RecvMsg(&reply); err == nil {
		fmt.Println("open")
		err = stream.RecvMsg(&reply)
	}
	fmt.Println("ended", status.Code(err))
}

func open(ctx context.Context, connection *grpc.ClientConn, name string, client, server bool) grpc.ClientStream {
	desc := grpc.StreamDesc{StreamName: name, ServerStreams: server, ClientStreams: client}
	stream, err := connection.NewStream(ctx, &desc, "/test.Echo/"+name)
	check(err)
	return stream
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
