// The input of a filter: completion while typing; mistakes shown at their place, with what applies meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import { complete, type Completion, type Names } from "./complete.ts";
import type { Mistake } from "./filter.ts";

export function FilterBox({ value, onChange, names, mistake, meanwhile, example }: {
  value: string; onChange: (text: string) => void; names: Names; mistake: Mistake | null; meanwhile: string; example: string;
}) {
  const [text, setText] = useState(value);
  const [options, setOptions] = useState<Completion[]>([]);
  /** The chosen completion, which Tab takes; -1 where Tab leaves the input. */
  const [at, setAt] = useState(-1);
  const [focused, setFocused] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const typed = useRef(value);
  useEffect(() => {
    // The input may be newer than the address, which must not overwrite what was typed meanwhile.
    if (value === typed.current || document.activeElement === input.current) return;
    typed.current = value;
    setText(value);
  }, [value]);

  /** The completions for the text of the input, which may be newer than the last rendering. */
  const possible = (): Completion[] => {
    const element = input.current;
    return element ? complete(element.value, element.selectionStart ?? element.value.length, names) : [];
  };
  const offer = (typing: boolean): void => {
    const found = possible();
    setOptions(found);
    setAt(typing && found[0]?.partial ? 0 : -1);
  };
  const change = (next: string): void => {
    typed.current = next;
    setText(next);
    onChange(next);
  };
  const take = (option: Completion): void => {
    const present = input.current?.value ?? text;
    const next = present.slice(0, option.from) + option.insert + present.slice(option.to).replace(/^ /, "");
    change(next);
    const place = option.from + option.insert.length;
    requestAnimationFrame(() => {
      input.current?.setSelectionRange(place, place);
      offer(false);
    });
  };
  const keys = (event: KeyboardEvent): void => {
    const open = options.length > 0;
    if (event.key === "ArrowDown" && open) setAt((at + 1) % options.length);
    else if (event.key === "ArrowUp" && open) setAt((Math.max(at, 0) + options.length - 1) % options.length);
    else if (event.key === "Tab" && open && at >= 0 && !event.shiftKey) {
      const option = possible().find((one) => one.label === options[at]!.label) ?? possible()[0];
      if (option) take(option);
    }
    else if (event.key === "Enter") setOptions([]);
    else if (event.key === "Escape") {
      if (open) setOptions([]);
      else input.current?.blur();
    } else return;
    event.preventDefault();
  };
  const open = focused && options.length > 0;
  return (
    <div class="filter">
      <input ref={input} type="text" data-filter role="combobox" aria-label="Filter" aria-expanded={open} aria-controls="filter-options" aria-autocomplete="list"
        aria-activedescendant={open && at >= 0 ? `filter-option-${at}` : undefined} aria-invalid={mistake !== null} aria-describedby={mistake ? "filter-mistake" : undefined}
        placeholder={example} value={text} spellcheck={false} autocomplete="off"
        onInput={(event) => {
          change(event.currentTarget.value);
          offer(true);
        }}
        onFocus={() => setFocused(true)}
        onBlur={() => {
          setFocused(false);
          setOptions([]);
        }} onClick={() => offer(false)} onKeyDown={keys} />
      {open ? (
        <ul class="options" id="filter-options" role="listbox" aria-label="Completions">
          {options.map((option, index) => (
            <li key={option.label} id={`filter-option-${index}`} role="option" aria-selected={index === at} onPointerDown={(event) => {
              event.preventDefault();
              take(option);
            }}><span class="clip mono name">{option.label}</span><span class="quiet">{option.hint}</span></li>
          ))}
        </ul>
      ) : mistake && text && (
        <div class="mistake" id="filter-mistake" role="alert">
          <pre>{text.slice(0, mistake.from)}<mark>{text.slice(mistake.from, mistake.to) || "▁"}</mark>{text.slice(mistake.to)}</pre>
          {mistake.message} {meanwhile}
        </div>
      )}
    </div>
  );
}
