import java.io.IOException;
import org.apache.rocketmq.broker.BrokerStartup;

/** RocketMQ's own broker, which ends with whoever started it: at the end of its standard input it halts. */
public class Broker {
    public static void main(String[] args) {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException e) {
                // as good as an end
            }
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
        BrokerStartup.main(args);
    }
}
