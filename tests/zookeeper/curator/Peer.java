import java.util.Scanner;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Acquires and releases a mutex as the lines of its input say, and prints a line after each. */
public final class Peer {
    public static void main(String[] arguments) throws Exception {
        try (var client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(1000))) {
            client.start();
            var mutex = new InterProcessMutex(client, arguments[1]);
            for (var input = new Scanner(System.in); input.hasNextLine(); ) {
                if (input.nextLine().equals("acquire")) {
                    mutex.acquire();
                } else {
                    mutex.release();
                }
                System.out.println("done");
            }
        }
    }
}
