"""Figures as JSON lines in a file, and the table of their medians."""
import json
import pathlib
import statistics


class Figures:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def add(self, scenario, figure, unit, value):
        with self.path.open("a") as file:
            print(json.dumps({"scenario": scenario, "figure": figure, "unit": unit, "value": round(value, 3)}), file=file)

    def rows(self):
        """(scenario, figure, unit, [value of each round]) in the order of their first appearance."""
        found = {}
        for line in self.path.read_text().splitlines():
            row = json.loads(line)
            found.setdefault((row["scenario"], row["figure"], row["unit"]), []).append(row["value"])
        return [(*key, values) for key, values in found.items()]

    def median(self, scenario, figure):
        for row_scenario, row_figure, _, values in self.rows():
            if (row_scenario, row_figure) == (scenario, figure):
                return statistics.median(values)
        return None

    def table(self):
        lines = [f"{'scenario':<16}{'figure':<34}{'median':>12}{'min':>12}{'max':>12}  unit (rounds)"]
        for scenario, figure, unit, values in self.rows():
            numbers = "".join(f"{value:>12,.2f}" for value in (statistics.median(values), min(values), max(values)))
            lines.append(f"{scenario:<16}{figure:<34}{numbers}  {unit} ({len(values)})")
        return "\n".join(lines)
