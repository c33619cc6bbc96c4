/** A question of an operator. */
export interface Question {
  /** Lower case, for matching words. */
  text: string;
}

/** Reads a question. */
export const readQuestion = (content: string): Question => ({ text: content.toLowerCase() });
