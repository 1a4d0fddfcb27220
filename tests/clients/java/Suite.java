import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Scenarios with RocketMQ's own client, many at a time: Suite NAME_SERVER SERVER RUN [SCENARIO …].
 * A line for each: PASS, FAIL or SKIP, its name, seconds, what was wrong; END when all are through.
 * A scenario asks whoever started this to restart a server by a line ASK …, and goes on at a line on standard input.
 */
public class Suite {
    interface Scenario {
        void run(Kit kit) throws Exception;
    }

    /** The scenario cannot be played here. */
    static class Skipped extends RuntimeException {
        Skipped(String why) {
            super(why);
        }
    }

    /** Scenarios wait much and compute little. */
    static final int AT_ONCE = 10;

    private static final Map<String, Scenario> PLAIN = new LinkedHashMap<>();
    private static final Map<String, Scenario> BINARY = new LinkedHashMap<>();
    private static final Map<String, Scenario> RESTARTING = new LinkedHashMap<>();
    private static final Set<String> OURS = new HashSet<>();
    private static final BufferedReader IN =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static PrintStream out;

    /** Register what any RocketMQ must do. */
    static void scenario(String name, Scenario scenario) {
        PLAIN.put(name, scenario);
    }

    /** Register what LiteMQ must do, and RocketMQ does otherwise. */
    static void ours(String name, Scenario scenario) {
        OURS.add(name);
        PLAIN.put(name, scenario);
    }

    /** Register what runs after the others, with the binary header instead of the JSON one. */
    static void binary(String name, Scenario scenario) {
        BINARY.put(name, scenario);
    }

    /** Register what restarts a server, and so runs alone at the end. */
    static void restarting(String name, Scenario scenario) {
        RESTARTING.put(name, scenario);
    }

    /** Have whoever started this do something, and wait until it is done. */
    static void ask(String what) throws IOException {
        say("ASK " + what);
        String answer = IN.readLine();
        if (answer != null && answer.startsWith("SKIP ")) throw new Skipped(answer.substring(5));
        Kit.check("DONE".equals(answer), what + ": " + answer);
    }

    private static synchronized void say(String line) {
        out.writeBytes((line.replaceAll("[\r\n]+", " ") + "\n").getBytes(StandardCharsets.UTF_8));
        out.flush();
    }

    private static void runOne(String name, Scenario scenario) {
        long start = System.currentTimeMillis();
        String verdict = "PASS", text = "";
        try (Kit kit = new Kit(name)) {
            scenario.run(kit);
        } catch (Skipped e) {
            verdict = "SKIP";
            text = e.getMessage();
        } catch (Throwable e) {
            verdict = "FAIL";
            text = described(e);
        }
        say(String.format("%s %s %.1f %s", verdict, name, (System.currentTimeMillis() - start) / 1000.0, text));
    }

    private static String described(Throwable e) {
        String text = e instanceof AssertionError ? String.valueOf(e.getMessage()) : String.valueOf(e);
        if (e.getCause() != null) text += ", because of " + e.getCause();
        for (StackTraceElement at : e.getStackTrace())
            if (at.getFileName() != null && at.getClassName().indexOf('.') < 0 && !at.getClassName().startsWith("Kit"))
                return text + " (" + at.getFileName() + ":" + at.getLineNumber() + ")";
        return text;
    }

    private static void runAll(Map<String, Scenario> scenarios, int atOnce) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(atOnce, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        List<Future<?>> running = new ArrayList<>();
        for (Map.Entry<String, Scenario> e : scenarios.entrySet())
            running.add(pool.submit(() -> runOne(e.getKey(), e.getValue())));
        for (Future<?> one : running) one.get();
        pool.shutdown();
    }

    public static void main(String[] args) throws Exception {
        out = System.out;
        System.setOut(System.err);  // the library prints; verdicts go to the real one
        Retrying.register();  // the slow ones first
        Joining.register();
        Popping.register();
        Transacting.register();
        Replying.register();
        Ordering.register();
        Reading.register();
        Offsets.register();
        Sending.register();
        Bodies.register();
        Filtering.register();
        Querying.register();
        Refusals.register();
        Restarts.register();
        List<String> wanted = Arrays.asList(args).subList(3, args.length);
        for (Map<String, Scenario> some : Arrays.asList(PLAIN, BINARY, RESTARTING))
            if (!wanted.isEmpty()) some.keySet().retainAll(wanted);
        boolean isOurs = args[1].equals("litemq");
        for (String name : OURS)
            if (!isOurs && PLAIN.remove(name) != null) say("SKIP " + name + " 0.0 holds for LiteMQ only");
        Kit.connect(args[0], args[2], isOurs);
        runAll(PLAIN, AT_ONCE);
        if (!BINARY.isEmpty()) {
            Field type = RemotingCommand.class.getDeclaredField("serializeTypeConfigInThisServer");
            type.setAccessible(true);
            type.set(null, SerializeType.ROCKETMQ);
            runAll(BINARY, AT_ONCE);
            type.set(null, SerializeType.JSON);
        }
        runAll(RESTARTING, 1);
        say("END");
        Runtime.getRuntime().halt(0);
    }
}
