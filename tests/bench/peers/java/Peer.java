import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Locks of Redisson, driven by the same orders as the children of the benchmark: see src/child.rs, and src/load.rs for
 * the form of plans and outcomes. Any failure ends the process.
 */
public final class Peer {
    private static final long FOREVER = Duration.ofHours(1).toNanos();

    /** The threads never end, so that their CPU time can be read. */
    private static final ThreadPoolExecutor THREADS =
            new ThreadPoolExecutor(0, Integer.MAX_VALUE, 1, TimeUnit.DAYS, new SynchronousQueue<>());

    private final Function<String, RLock> locks;

    private Peer(String contender, String url) {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        RedissonClient redisson = Redisson.create(config);
        locks = switch (contender) {
            case "redisson" -> redisson::getLock;
            case "redisson-fair" -> redisson::getFairLock;
            default -> throw new IllegalArgumentException("unknown contender " + contender);
        };
    }

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "drive" -> {
                if (!arguments[2].equals("1")) {
                    throw new IllegalArgumentException("a process has one client");
                }
                Peer peer = new Peer(arguments[1], arguments[4]);
                peer.warmUp();
                serve(order -> peer.drive(Plan.read(order)));
            }
            case "pass" -> {
                Peer peer = new Peer(arguments[2], arguments[1]);
                peer.warmUp();
                serve(peer::alternate);
            }
            default -> throw new IllegalArgumentException("unknown kind of work " + arguments[0]);
        }
    }

    private static void serve(UnaryOperator<String> answer) {
        System.out.println("ready");
        for (Scanner orders = new Scanner(System.in); orders.hasNextLine(); ) {
            System.out.println(answer.apply(orders.nextLine()));
        }
    }

    /** Acquires locks until the JVM has compiled the code that does so. */
    private void warmUp() {
        String turn = "of-process-" + ProcessHandle.current().pid();
        drive(new Plan(1, false, 0, Duration.ofSeconds(3).toNanos(), Long.MAX_VALUE, turn));
        drive(new Plan(20, true, 0, Duration.ofSeconds(1).toNanos(), Long.MAX_VALUE, turn));
    }

    /** What to do in a turn. The times are nanoseconds; `time` is FOREVER if the number of locks is limited. */
    private record Plan(int tasks, boolean same, long body, long time, long locks, String turn) {
        static Plan read(String order) {
            String[] words = order.split(" ");
            boolean timed = words[3].equals("time");
            long amount = Long.parseLong(words[4]);
            return new Plan(
                    Integer.parseInt(words[0]),
                    words[1].equals("same"),
                    Long.parseLong(words[2]),
                    timed ? amount : FOREVER,
                    timed ? Long.MAX_VALUE : amount,
                    words[5]);
        }

        String key(int task) {
            return same ? "bench-" + turn : "bench-" + turn + "-" + task;
        }
    }

    private static final class Tally {
        final List<Long> costs = new ArrayList<>();
        final List<Long> waits = new ArrayList<>();
    }

    /** Runs a plan. A task that still waits when the time is up acquires the lock, which does not count. */
    private String drive(Plan plan) {
        long began = clock();
        long start = System.nanoTime();
        List<Future<Tally>> tasks = new ArrayList<>();
        for (int task = 0; task < plan.tasks; task++) {
            String key = plan.key(task);
            tasks.add(THREADS.submit(() -> work(plan, key, start)));
        }
        Tally all = new Tally();
        for (Future<Tally> task : tasks) {
            Tally tally = join(task);
            all.costs.addAll(tally.costs);
            all.waits.addAll(tally.waits);
        }
        long elapsed = plan.time == FOREVER ? System.nanoTime() - start : plan.time;
        return elapsed + " " + began + " " + (began + elapsed) + " " + summary(all.costs) + " " + summary(all.waits);
    }

    private Tally work(Plan plan, String key, long start) {
        Tally tally = new Tally();
        long end = start + plan.time;
        long asked = System.nanoTime();
        for (long left = plan.locks; left > 0 && asked < end; left--) {
            RLock lock = locks.apply(key);
            lock.lock();
            long got = System.nanoTime();
            long done = got;
            if (plan.body > 0) {
                keep(got + plan.body);
                done = System.nanoTime();
            }
            lock.unlock();
            long released = System.nanoTime();
            if (released <= end) {
                tally.waits.add(got - asked);
                tally.costs.add(released - asked - (done - got));
            }
            asked = released;
        }
        return tally;
    }

    /** Waits until a time precisely. */
    private static void keep(long until) {
        sleep(until - System.nanoTime() - 1_200_000);
        while (System.nanoTime() < until) {
            Thread.yield();
        }
    }

    private static void sleep(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    /** Acquires one lock repeatedly while another process does the same. */
    private String alternate(String order) {
        String[] words = order.split(" ");
        long passes = Long.parseLong(words[1]);
        long rest = Long.parseLong(words[2]);
        RLock lock = locks.apply("bench-" + words[0]);
        List<Long> times = new ArrayList<>();
        for (long pass = 0; pass < passes; pass++) {
            lock.lock();
            times.add(clock());
            sleep(2 * rest);
            times.add(clock());
            lock.unlock();
            sleep(rest);
        }
        return times.stream().map(String::valueOf).collect(Collectors.joining(" "));
    }

    private static Tally join(Future<Tally> task) {
        try {
            return task.get();
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    /** Returns the time on a clock that all processes share. */
    private static long clock() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano();
    }

    private static String summary(List<Long> times) {
        if (times.isEmpty()) {
            return "0 0 0 0 0";
        }
        List<Long> sorted = times.stream().sorted().toList();
        int count = sorted.size();
        long sum = sorted.stream().mapToLong(Long::longValue).sum();
        Function<Integer, Long> percentile = percent -> sorted.get((int) ((count - 1L) * percent / 100));
        return count + " " + sum / count + " " + percentile.apply(50) + " " + percentile.apply(99) + " "
                + percentile.apply(100);
    }
}
