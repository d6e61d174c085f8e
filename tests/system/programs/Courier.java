import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.RandomAccessFile;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Carries a file over TCP in pieces in random order, from two threads: `receive ADDRESS PORT FILE`, `send ...`. */
public class Courier {
    static final int PIECE_BYTES = 1000;

    public static void main(String[] arguments) throws Exception {
        var address = new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        if (arguments[0].equals("receive")) {
            receive(address, arguments[3]);
        } else {
            send(address, Path.of(arguments[3]));
        }
    }

    static void receive(InetSocketAddress address, String path) throws Exception {
        try (var server = new ServerSocket()) {
            server.bind(address);
            try (var in = new DataInputStream(server.accept().getInputStream());
                    var file = new RandomAccessFile(path, "rw")) {
                in.readUTF();
                while (true) {
                    file.seek((long) in.readInt() * PIECE_BYTES);
                    file.write(in.readNBytes(in.readInt()));
                }
            } catch (EOFException end) {
                return;
            }
        }
    }

    static void send(InetSocketAddress address, Path path) throws Exception {
        byte[] content = Files.readAllBytes(path);
        var numbers = IntStream.range(0, (content.length + PIECE_BYTES - 1) / PIECE_BYTES).boxed()
                .collect(Collectors.toList());
        Collections.shuffle(numbers, ThreadLocalRandom.current());
        var queue = new ArrayBlockingQueue<Integer>(10);
        for (var half : new int[] {0, 1}) {
            new Thread(() -> {
                for (int i = half; i < numbers.size(); i += 2) {
                    try {
                        queue.put(numbers.get(i));
                    } catch (InterruptedException stop) {
                        return;
                    }
                }
            }).start();
        }
        try (var socket = new Socket()) {
            socket.connect(address);
            var out = new DataOutputStream(socket.getOutputStream());
            out.writeUTF(UUID.randomUUID() + " " + new Object().hashCode() + " " + System.nanoTime());
            for (int sent = 0; sent < numbers.size(); sent++) {
                int number = queue.take();
                var piece = Arrays.copyOfRange(content, number * PIECE_BYTES,
                        Math.min((number + 1) * PIECE_BYTES, content.length));
                out.writeInt(number);
                out.writeInt(piece.length);
                out.write(piece);
            }
        }
    }
}
