import vocabulary from "./vocabulary.json" with { type: "json" };

type Some<Item> = readonly [Item, ...Item[]];

/** A program of the corpus: its name, the routes that it serves, and the form of its log. */
export interface CorpusService {
  name: string;
  version: string;
  form: "logfmt" | "json" | "nginx" | "java" | "syslog";
  routes: Some<string>;
}

/** The words of the corpus: of a shop on one host. JSON has no tuples. */
export const { services, statements, errors, userAgents, frames } = vocabulary as unknown as {
  services: Some<CorpusService>;
  /** As an ORM writes them, with the number of their parameters. */
  statements: Some<readonly [sql: string, parameters: number]>;
  /** A message has room for an id. */
  errors: Some<readonly [type: string, message: string]>;
  userAgents: Some<string>;
  /** Class and method. */
  frames: Some<string>;
};
