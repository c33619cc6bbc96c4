import { For } from "solid-js";
import { Icon } from "../../icons/icon.tsx";
import { columns, type TableLook, toggleColumn } from "./columns.ts";

/** Which columns the table has, and how close its rows stand. */
export const TableMenu = (props: { look: TableLook; onChange: (look: TableLook) => void }) => (
  <>
    <button class="button" type="button" popovertarget="table-menu">
      <Icon name="columns" /> View
    </button>
    <div id="table-menu" class="popover menu" popover="auto">
      <fieldset>
        <legend>Rows</legend>
        <For each={["comfortable", "compact"] as const}>
          {(density) => (
            <label>
              <input
                type="radio"
                name="density"
                checked={props.look.density === density}
                onChange={() => props.onChange({ ...props.look, density })}
              />
              {density === "comfortable" ? "Two lines" : "One line"}
            </label>
          )}
        </For>
      </fieldset>
      <fieldset>
        <legend>Columns</legend>
        <For each={columns.filter(({ name }) => name !== "device")}>
          {({ name, label }) => (
            <label>
              <input
                type="checkbox"
                checked={!props.look.hidden.includes(name)}
                onChange={() => props.onChange(toggleColumn(props.look, name))}
              />
              {label}
            </label>
          )}
        </For>
      </fieldset>
    </div>
  </>
);
