/**
 * Results of vitest's tests in a file that is written as they come, so that a run that hangs leaves those of the files that have ended, and says
 * in which test it hangs. vitest makes a reporter from the default export of a path given as `--reporter`.
 */
import { appendFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule } from "vitest/node";

/** A test that has ended; `name` is its own behind those of its groups, `seconds` its duration. */
export interface TestResult {
  name: string;
  state: "passed" | "failed" | "skipped" | "pending";
  seconds: number;
  errors: string[];
}

/** The results of a file's tests; `errors` are those outside of them, such as in a hook. */
export interface FileResult {
  file: string;
  errors: string[];
  tests: TestResult[];
}

/** A line of the results, as JSON: first all files, then each test as it begins, and each file as it ends. */
type ResultLine = { files: string[] } | { file: string; begins: string } | FileResult;

/** How far a run has come. `begun`: the files that run, each with the test that began last. */
export interface Progress {
  ended: FileResult[];
  begun: ReadonlyMap<string, string>;
  /** The files that have not ended, those of `begun` included. */
  left: string[];
}

/** Reads the results of a run so far; a line that was cut off is ignored. */
export const readProgress = (results: string): Progress => {
  const lines = results
    .split("\n")
    .slice(0, -1)
    .map((line): ResultLine => JSON.parse(line));
  const ended = lines.filter((line) => "tests" in line);
  const hasEnded = new Set(ended.map(({ file }) => file));
  const files = lines.flatMap((line) => ("files" in line ? line.files : []));
  const begun = lines.flatMap((line): [string, string][] =>
    "begins" in line && !hasEnded.has(line.file) ? [[line.file, line.begins]] : [],
  );
  return { ended, begun: new Map(begun), left: files.filter((file) => !hasEnded.has(file)) };
};

const messagesOf = (errors: readonly { message: string; stack?: string }[] = []) =>
  errors.map(({ message, stack }) => stack ?? message);

/** Reports whether the run's tags, if it has some, select a test. */
const isSelected = ({ tags, project }: TestCase): boolean =>
  project.vitest.config.tagsFilter?.some((tag) => tags.includes(tag)) ?? true;

/** Appends to the file that SVC_TEST_RESULTS names. */
export default class WriteResults implements Reporter {
  #write(line: ResultLine): void {
    appendFileSync(process.env.SVC_TEST_RESULTS ?? "", `${JSON.stringify(line)}\n`);
  }

  onTestRunStart(specifications: readonly { moduleId: string }[]): void {
    this.#write({ files: specifications.map(({ moduleId }) => moduleId) });
  }

  onTestCaseReady({ module, fullName }: TestCase): void {
    this.#write({ file: module.moduleId, begins: fullName });
  }

  onTestModuleEnd(module: TestModule): void {
    const tests = [...module.children.allTests()].filter(isSelected).map((test): TestResult => {
      const { state, errors } = test.result();
      const seconds = (test.diagnostic()?.duration ?? 0) / 1000;
      return { name: test.fullName, state, seconds, errors: messagesOf(errors) };
    });
    const suites = [...module.children.allSuites()].flatMap((suite) => suite.errors());
    this.#write({
      file: module.moduleId,
      errors: messagesOf([...module.errors(), ...suites]),
      tests,
    });
  }
}
