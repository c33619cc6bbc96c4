import { For } from "solid-js";

/** The words of choices by their values. */
export type Choices = Readonly<Record<string, string>>;

/** A labelled choice that applies at once, or with its form. */
export const ChoiceField = (props: {
  name: string;
  choices: Choices;
  chosen: string;
  /** Its name in a form. */
  field?: string;
  onChange?: (value: string) => void;
}) => (
  <label>
    {props.name}
    <select
      class="input"
      name={props.field}
      onChange={({ currentTarget }) => props.onChange?.(currentTarget.value)}
    >
      <For each={Object.entries(props.choices)}>
        {([value, words]) => (
          <option value={value} selected={value === props.chosen}>
            {words}
          </option>
        )}
      </For>
    </select>
  </label>
);
