import { For, type JSX, Show, splitProps } from "solid-js";
import {
  hideableColumns,
  labelColumnsMax,
  type TablePreferences,
  toggleColumn,
  toggleLabel,
} from "./table-preferences.ts";

/** The fields of the table preferences: density, columns, and a column for each label of the fleet. */
export const PreferenceFields = (props: {
  preferences: TablePreferences;
  /** The keys of the fleet's labels, the most frequent first. */
  labelKeys: readonly string[];
  onChange: (preferences: TablePreferences) => void;
}) => {
  const isFull = () => props.preferences.labels.length === labelColumnsMax;
  return (
    <>
      <fieldset>
        <legend>Rows</legend>
        <For each={["comfortable", "compact"] as const}>
          {(density) => (
            <Choice
              type="radio"
              name="density"
              checked={props.preferences.density === density}
              onChange={() => props.onChange({ ...props.preferences, density })}
            >
              {density === "comfortable" ? "Two lines" : "One line"}
            </Choice>
          )}
        </For>
      </fieldset>
      <fieldset>
        <legend>Columns</legend>
        <For each={hideableColumns}>
          {({ name, label, from }) => (
            <Choice
              checked={!props.preferences.hidden.includes(name)}
              onChange={() => props.onChange(toggleColumn(props.preferences, name))}
            >
              {label}
              <Show when={from}>
                {" "}
                <span class="quiet">wide screens</span>
              </Show>
            </Choice>
          )}
        </For>
      </fieldset>
      <Show when={labelKeysOf(props).length > 0}>
        <fieldset class="menu-labels">
          <legend>Labels{isFull() ? `, at most ${labelColumnsMax}` : ""}</legend>
          <For each={labelKeysOf(props)}>
            {(key) => {
              const isShown = () => props.preferences.labels.includes(key);
              return (
                <Choice
                  checked={isShown()}
                  disabled={isFull() && !isShown()}
                  onChange={() => props.onChange(toggleLabel(props.preferences, key))}
                >
                  {key}
                </Choice>
              );
            }}
          </For>
        </fieldset>
      </Show>
    </>
  );
};

const Choice = (props: JSX.InputHTMLAttributes<HTMLInputElement>) => {
  const [own, input] = splitProps(props, ["children"]);
  return (
    <label>
      <input type="checkbox" {...input} />
      {own.children}
    </label>
  );
};

/** The keys to choose from: those of the fleet, and chosen ones that no host under the filters has. */
const labelKeysOf = (props: {
  labelKeys: readonly string[];
  preferences: TablePreferences;
}): string[] => [...new Set([...props.labelKeys, ...props.preferences.labels])];
