import edu.anu.spice.Annotator;
import edu.anu.spice.Evaluation;
import edu.anu.spice.SceneGraph;
import edu.anu.spice.SpiceParser;
import edu.anu.spice.TupleSet;
import edu.stanford.nlp.pipeline.StanfordCoreNLP;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.json.simple.JSONArray;
import org.json.simple.JSONObject;
import org.json.simple.parser.JSONParser;

/**
 * Keeps SPICE running: its own command line scores one file and ends, after loading its grammar for seconds.
 *
 * <p>Each line of the input is a question and has one line of answer, both JSON:
 *
 * <pre>
 *   {"parse": ["a brown dog"]}                      {"parses": [[["dog", "brown"], ["dog"]]]}
 *   {"score": [[PARSE, [PARSE, PARSE]], ...]}       {"f": [0.5, ...]}
 * </pre>
 *
 * <p>where the second asks about pairs of a candidate and its references. What goes wrong is answered as
 * {"error": "..."}. Parsing, merging, matching and the F-score are SPICE's own classes. The process ends at the end of
 * its input, also in the middle of a question, so that it cannot outlive the program that asks.
 *
 * <p>Compiled for any Java from 8 on, with the jars of SPICE in HOME:
 *
 * <pre>
 *   javac --release 8 -cp 'HOME/*' SpiceServer.java
 *   sha256sum SpiceServer.java *.class &gt; SHA256SUMS
 * </pre>
 */
public final class SpiceServer extends SpiceParser {
    private static final int QUESTIONS_AHEAD = 4;

    private SpiceServer(int numThreads) {
        super(null, numThreads, true);
        this.annotator = new Grammar(numThreads);
    }

    /** SPICE's grammar without the three classifiers of names, which nothing in a scene graph depends on. */
    private static final class Grammar extends Annotator {
        private static final int BATCH = 10000;

        Grammar(int numThreads) {
            super(numThreads, BATCH);
        }

        @Override
        public void setInput(List<String> captions) {
            if (this.pipeline == null) {
                Properties properties = new Properties();
                properties.setProperty("annotators", "tokenize,ssplit,parse,lemma");
                properties.setProperty("threads", Integer.toString(this.numThreads));
                this.pipeline = new StanfordCoreNLP(properties);
            }
            super.setInput(captions);
        }
    }

    @SuppressWarnings("unchecked")
    private JSONObject parse(List<String> captions) {
        Map<String, ArrayList<ArrayList<String>>> tuples = this.generateTuples(captions);
        JSONArray parses = new JSONArray();
        for (String caption : captions) {
            parses.add(tuples.get(caption));
        }
        JSONObject answer = new JSONObject();
        answer.put("parses", parses);
        return answer;
    }

    @SuppressWarnings("unchecked")
    private JSONObject score(List<List<?>> pairs) {
        JSONArray scores = new JSONArray();
        for (List<?> pair : pairs) {
            SceneGraph candidate = new SceneGraph(this.synonyms, true);
            add((List<ArrayList<String>>) pair.get(0), candidate);
            SceneGraph references = new SceneGraph(this.synonyms, true);
            for (List<ArrayList<String>> parse : (List<List<ArrayList<String>>>) pair.get(1)) {
                add(parse, references);
            }
            scores.add(new Evaluation(new TupleSet(candidate), new TupleSet(references), false, true).f);
        }
        JSONObject answer = new JSONObject();
        answer.put("f", scores);
        return answer;
    }

    private static void add(List<ArrayList<String>> parse, SceneGraph scene) {
        for (ArrayList<String> tuple : parse) {
            scene.addTuple(tuple);
        }
    }

    @SuppressWarnings("unchecked")
    private JSONObject answer(String line) {
        try {
            JSONObject question = (JSONObject) new JSONParser().parse(line);
            if (question.containsKey("parse")) {
                return this.parse((List<String>) question.get("parse"));
            }
            if (question.containsKey("score")) {
                return this.score((List<List<?>>) question.get("score"));
            }
            throw new IllegalArgumentException("a question is parse or score, not " + question.keySet());
        } catch (Exception | OutOfMemoryError | StackOverflowError error) {
            error.printStackTrace();
            JSONObject answer = new JSONObject();
            answer.put("error", error.toString());
            return answer;
        }
    }

    private static void read(BlockingQueue<String> questions) {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                questions.put(line);
            }
            Runtime.getRuntime().halt(0);
        } catch (IOException | InterruptedException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void serve(BlockingQueue<String> questions, PrintStream answers) {
        try {
            while (true) {
                answers.print(this.answer(questions.take()).toJSONString() + "\n");
                answers.flush();
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err); // whatever else prints must not mix with the answers
        BlockingQueue<String> questions = new LinkedBlockingQueue<>(QUESTIONS_AHEAD);
        Thread reader = new Thread(() -> read(questions));
        reader.setDaemon(true);
        reader.start();
        new SpiceServer(Runtime.getRuntime().availableProcessors()).serve(questions, answers);
    }
}
