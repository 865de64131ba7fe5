"""What an attacker can do: the trade-off between false alarms and missed detections for several
guarantees.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from riemdp import Budget, privacy

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

plt.figure(figsize=(4.8, 4.6))
for epsilon, colour in ((0.3, "#1b9e77"), (1.0, "#0b5c8a"), (3.0, "#d95f02")):
    gaussian = privacy.gaussian(privacy.gaussian_noise_multiplier(Budget(epsilon, 1e-5)))
    for made, style in ((gaussian, "-"), (privacy.pure(epsilon), ":")):
        bound = made.trade_off()
        plt.plot(
            *bound.curve(),
            style,
            color=colour,
            label=f"epsilon {epsilon}" if style == "-" else None,
        )
        print(
            f"epsilon {epsilon}, {'Gaussian' if style == '-' else 'pure    '}: best guess right at"
            f" most {bound.best_guess:.1%}"
        )
plt.plot([0, 1], [1, 0], "k--", lw=0.8, label="guessing")
plt.xlabel("false alarms")
plt.ylabel("missed detections, at least")
plt.title("Solid: Gaussian at delta 1e-5; dotted: pure epsilon", fontsize=10)
plt.legend()
plt.savefig(OUT / "trade_off.png", dpi=90, bbox_inches="tight")
